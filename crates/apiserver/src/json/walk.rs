//! The pass over a body that makes its value.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::NOTES_MAX;

/// A path may be as long as the body, so a hundred of them are not kept at any length.
const NOTED_BYTES_MAX: usize = 64 << 10;

/// Where the pass stands and what it found.
#[derive(Default)]
pub struct Walk {
    /// `spec.containers[0]`
    path: String,
    /// Keys so far.
    count: usize,
    /// Fields that stood there before, each once; no more than anybody is told of.
    pub duplicates: Vec<String>,
    /// Their bytes.
    noted: usize,
    told: HashSet<String>,
    wanted: HashMap<String, Wanted>,
}

/// A path to find the place of.
struct Wanted {
    /// Not where it stands first but where it stands again.
    again: bool,
    place: Option<usize>,
}

pub fn parse(body: &[u8], walk: &mut Walk) -> Result<Value, serde_json::Error> {
    // As Go does, which puts a mark in the place of what is no text.
    let text = String::from_utf8_lossy(body);
    match parse_text(&text, walk) {
        Err(error) => match without_lone_surrogates(&text) {
            None => Err(error),
            Some(text) => {
                *walk = Walk { wanted: std::mem::take(&mut walk.wanted), ..Walk::default() };
                parse_text(&text, walk)
            }
        },
        ok => ok,
    }
}

fn parse_text(text: &str, walk: &mut Walk) -> Result<Value, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Seed(walk).deserialize(&mut json)?;
    json.end().map(|()| value)
}

/// Halves of pairs that stand alone are no text either. `None` if there are none.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let half = |at: &str| -> Option<u32> {
        let code = u32::from_str_radix(at.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
        (0xd800..0xe000).contains(&code).then_some(code)
    };
    let (mut out, mut rest, mut found) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let paired = half(escape).is_some_and(|code| code < 0xdc00)
            && escape.get(6..).and_then(half).is_some_and(|code| code >= 0xdc00);
        let length = match half(escape) {
            Some(_) if paired => 12,
            Some(_) => 6,
            // Whatever is escaped is no beginning of an escape.
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..at]);
        match half(escape) {
            Some(_) if !paired => {
                out.push_str("\\ufffd");
                found = true;
            }
            _ => out.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    out.push_str(rest);
    found.then_some(out)
}

/// Where in a body that was read before these paths stand, or stand again.
pub fn places<'p>(
    body: &[u8],
    paths: impl Iterator<Item = (&'p String, bool)>,
) -> HashMap<String, Option<usize>> {
    let wanted = paths.map(|(path, again)| (path.clone(), Wanted { again, place: None }));
    let mut walk = Walk { wanted: wanted.collect(), ..Walk::default() };
    let _ = parse(body, &mut walk);
    walk.wanted.into_iter().map(|(path, wanted)| (path, wanted.place)).collect()
}

impl Walk {
    /// Keeps where the pass stands, unless that is known or enough is.
    fn note(&mut self) -> bool {
        let enough = self.duplicates.len() >= NOTES_MAX || self.noted > NOTED_BYTES_MAX;
        if enough || self.told.contains(&self.path) {
            return false;
        }
        self.noted += self.path.len();
        self.told.insert(self.path.clone());
        self.duplicates.push(self.path.clone());
        true
    }

    /// Goes to a key. Returns how to go back.
    fn enter(&mut self, key: &str, again: bool) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.count += 1;
        let first_again = again && self.note();
        if !self.wanted.is_empty()
            && let Some(wanted) = self.wanted.get_mut(&self.path)
            && wanted.place.is_none()
            && wanted.again == first_again
        {
            wanted.place = Some(self.count);
        }
        length
    }
}

struct Seed<'w>(&'w mut Walk);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(yes.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let length = self.0.path.len();
        let mut out = Vec::new();
        loop {
            self.0.path.push_str(&format!("[{}]", out.len()));
            let item = items.next_element_seed(Seed(self.0));
            self.0.path.truncate(length);
            match item? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let length = self.0.enter(&key, out.contains_key(&key));
            let value = entries.next_value_seed(Seed(self.0));
            self.0.path.truncate(length);
            out.insert(key, value?);
        }
        Ok(Value::Object(out))
    }
}
