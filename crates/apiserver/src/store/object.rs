//! An object at one version, and what happened to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bowline_api::ObjectKey;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::errors::Trouble;
use crate::json::depth;
use crate::registry::{Text, ViewKey};

pub type Labels = BTreeMap<String, String>;
pub type Fields = Vec<(Text, String)>;

/// One version of one object: immutable, shared by everyone who reads it.
///
/// The JSON is the truth and is encoded once; what selectors ask for is parsed on first use.
#[derive(Debug)]
pub struct Stored {
    pub key: ObjectKey,
    pub version: u64,
    pub json: Bytes,
    brief: OnceLock<Brief>,
    fields: OnceLock<Fields>,
    /// The view through which it was last read, and what was seen.
    seen: Mutex<Option<(ViewKey, Arc<Stored>)>>,
    binary: Mutex<Binary>,
    /// This state under the version at which it left the selectors of watchers, who share it.
    left: OnceLock<Option<Arc<Stored>>>,
}

/// The object in protobuf, which most objects are never asked for.
#[derive(Debug, Default)]
enum Binary {
    #[default]
    Never,
    /// Somebody asked, who may have been the only one.
    Once,
    Kept(Bytes),
}

/// Whether an encoded object is kept for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Many ask at once: the watchers of an event.
    Now,
    /// One informer lists all objects once; only what is listed again and again is worth its memory.
    IfAskedAgain,
}

/// What is asked of many objects; the rest of the JSON is skipped over.
#[derive(Debug, Default)]
struct Brief {
    labels: Labels,
    deleting: bool,
}

#[derive(Deserialize)]
struct WithMetadata {
    #[serde(default)]
    metadata: BriefMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct BriefMetadata {
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

impl Stored {
    pub fn new(key: ObjectKey, version: u64, json: Bytes) -> Self {
        Self {
            key,
            version,
            json,
            brief: OnceLock::new(),
            fields: OnceLock::new(),
            seen: Mutex::new(None),
            binary: Mutex::default(),
            left: OnceLock::new(),
        }
    }

    /// What it counts for in the quota.
    pub fn bytes(&self) -> u64 {
        (self.key.namespace.len() + self.key.name.len() + self.json.len()) as u64
    }

    /// A private copy to change.
    pub fn value(&self) -> Value {
        // Only what was encoded from a `Value` that is not too deep is ever stored, so this cannot fail.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The same content under the version of the change that replaced it. All watchers share what the first one made.
    pub fn replaced_at(&self, version: u64) -> Option<Arc<Self>> {
        let make = || {
            let (json, _) = encode(EventKind::Modified, self.value(), version).ok()?;
            Some(Arc::new(Self::new(self.key.clone(), version, json)))
        };
        let kept = self.left.get_or_init(make).clone();
        kept.filter(|left| left.version == version).or_else(make)
    }

    /// The object through a view. What one reader saw is kept for the next one.
    pub fn seen(&self, view: &ViewKey, read: impl FnOnce(Value) -> Value) -> Arc<Self> {
        let lock = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, seen)) = lock().as_ref().filter(|(key, _)| key.is(view)) {
            return seen.clone();
        }
        let seen = json(&read(self.value())).unwrap_or_default();
        // Mostly a view changes nothing: then the bytes are shared.
        let json = if seen == self.json { self.json.clone() } else { Bytes::copy_from_slice(&seen) };
        let seen = Arc::new(Self::new(self.key.clone(), self.version, json));
        *lock() = Some((view.clone(), seen.clone()));
        seen
    }

    pub fn labels(&self) -> &Labels {
        &self.brief().labels
    }

    /// Whether its end is announced.
    pub fn deleting(&self) -> bool {
        self.brief().deleting
    }

    fn brief(&self) -> &Brief {
        self.brief.get_or_init(|| {
            let parsed: Option<WithMetadata> = serde_json::from_slice(&self.json).ok();
            let metadata = parsed.map(|object| object.metadata).unwrap_or_default();
            Brief {
                labels: metadata.labels.unwrap_or_default(),
                deleting: metadata.deletion_timestamp.is_some(),
            }
        })
    }

    /// The object in protobuf, without its envelope.
    pub fn binary(&self, keep: Keep, encode: impl FnOnce(&[u8]) -> Option<Bytes>) -> Option<Bytes> {
        // Held while it is encoded, so that a thousand watchers encode it once.
        let mut kept = self.binary.lock().unwrap_or_else(PoisonError::into_inner);
        if let Binary::Kept(bytes) = &*kept {
            return Some(bytes.clone());
        }
        let bytes = encode(&self.json)?;
        *kept = match (&*kept, keep) {
            (Binary::Never, Keep::IfAskedAgain) => Binary::Once,
            _ => Binary::Kept(bytes.clone()),
        };
        Some(bytes)
    }

    /// Lets go of what can be made again.
    pub fn forget_binary(&self) {
        *self.binary.lock().unwrap_or_else(PoisonError::into_inner) = Binary::Never;
    }

    /// Field labels, which the rules of the kind compute once.
    pub fn fields(&self, compute: impl FnOnce(&[u8]) -> Fields) -> &Fields {
        self.fields.get_or_init(|| compute(&self.json))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// As it stands in a watch event.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One write, as watchers see it.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    pub version: u64,
    /// The new state; for a deletion the last state under the version of the deletion.
    pub object: Arc<Stored>,
    /// The state before, for selectors and for undoing.
    pub previous: Option<Arc<Stored>>,
    /// The line of a plain JSON watch; shares its bytes with the object.
    pub frame: Bytes,
}

/// As deep as an object may be nested: what carries it (lists, events, tables, backups) adds a few levels of its own,
/// and all of them are read again.
const DEPTH_MAX: usize = crate::json::DEPTH_MAX - 7;

/// Refuses what could not be read again. A body may be less deep and its object not: the record of who set which field
/// repeats the nesting a few levels further down.
pub fn check_depth(object: &Value) -> Result<(), Trouble> {
    match depth(object) {
        ..=DEPTH_MAX => Ok(()),
        levels => Err(Trouble::TooLarge(format!(
            "the object with the record of its fields is nested {levels} levels deep; at most {DEPTH_MAX} can be stored"
        ))),
    }
}

/// Encodes an object once: its JSON, and the line of a watch stream around it. Both share one buffer.
///
/// This is the only place that sets a resourceVersion.
pub fn encode(kind: EventKind, mut value: Value, version: u64) -> Result<(Bytes, Bytes), String> {
    value["metadata"]["resourceVersion"] = version.to_string().into();
    let mut line = Vec::with_capacity(4096);
    line.extend_from_slice(&opening(kind.word()));
    let start = line.len();
    write(&value, &mut line).map_err(|error| error.to_string())?;
    let end = line.len();
    line.extend_from_slice(CLOSING);
    // It lives long: no room behind its end.
    let frame = Bytes::copy_from_slice(&line);
    Ok((frame.slice(start..end), frame))
}

/// What stands first in the JSON of every object. A list of a kind names it once, so its objects begin behind this.
pub fn type_prefix(api_version: &str, kind: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",")
}

/// An object in the order in which people read it, and which [`type_prefix`] relies on.
pub fn json(object: &Value) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    write(object, &mut out)?;
    Ok(out)
}

fn write(object: &Value, out: &mut Vec<u8>) -> serde_json::Result<()> {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let Some(members) = object.as_object() else { return serde_json::to_writer(out, object) };
    let first = FIRST.iter().filter_map(|name| members.get_key_value(*name));
    let others = members.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    out.push(b'{');
    for (position, (name, value)) in first.chain(others).enumerate() {
        if position > 0 {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, name)?;
        out.push(b':');
        serde_json::to_writer(&mut *out, value)?;
    }
    out.push(b'}');
    Ok(())
}

/// One line of a watch stream around any JSON.
pub fn frame(word: &str, object: &[u8]) -> Bytes {
    let mut line = opening(word);
    line.extend_from_slice(object);
    line.extend_from_slice(CLOSING);
    line.into()
}

/// What stands behind the object in a line of a watch stream.
pub const CLOSING: &[u8] = b"}\n";

/// What stands before it.
pub fn opening(word: &str) -> Vec<u8> {
    format!("{{\"type\":\"{word}\",\"object\":").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One change of a large object must not cost a copy for each watcher.
    #[test]
    fn watchers_share_what_left_their_selectors() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"a","resourceVersion":"3"}}"#);
        let old = Stored::new(ObjectKey::new("n", "a"), 3, json);
        let [one, other] = [old.replaced_at(4).unwrap(), old.replaced_at(4).unwrap()];
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(one.value()["metadata"]["resourceVersion"], "4");
        assert_eq!(old.replaced_at(5).unwrap().version, 5);
    }
}
