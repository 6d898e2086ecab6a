//! Lists whose elements are told apart, by value in sets and by key in maps: their order does not matter, and adding
//! to them replaces what is there already.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::escape::escape;
use super::eval::{Evaluator, Fail};
use super::value::{List, Text, Val};

/// How elements are told apart.
pub enum Kind<'a> {
    Set,
    /// By fields, in the names that expressions use.
    Map(Vec<Val<'a>>),
}

/// `None` for lists in which each element has its place.
pub fn kind<'a>(list: &List<'a>) -> Option<Kind<'a>> {
    let schema = list.schema()?;
    match schema.list_type.as_deref()? {
        "set" => Some(Kind::Set),
        "map" => {
            let named = |key: &'a String| escape(key).map_or(Val::Text(Text::Ref(key)), Val::text);
            Some(Kind::Map(schema.list_map_keys.iter().map(named).collect()))
        }
        _ => None,
    }
}

/// Whether two lists of one length have the same elements, as the first one tells them apart.
pub fn same<'a>(kind: &Kind<'a>, one: &[Val<'a>], other: &[Val<'a>], spent: &mut u64) -> bool {
    let mut known: HashMap<String, &Val<'a>> = HashMap::new();
    for item in one {
        let Some(name) = name(kind, item, spent) else { return false };
        known.insert(name, item);
    }
    other.iter().all(|item| {
        let found = name(kind, item, spent).and_then(|name| known.get(&name));
        found.is_some_and(|known| known.equals(item, spent))
    })
}

/// Two lists as one: both in a row, or what the first one has replaced or followed by what the other one has.
pub fn joined<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    one: &List<'a>,
    other: &List<'a>,
) -> Result<Val<'a>, Fail> {
    let (mut all, more) = (evaluator.items(one)?, evaluator.items(other)?);
    let (Some(schema), Some(kind)) = (one.schema(), kind(one)) else {
        all.extend(more);
        return Ok(Val::list(all));
    };
    let mut spent = 0;
    let mut places = HashMap::new();
    for (place, item) in all.iter().enumerate() {
        places.insert(name(&kind, item, &mut spent), place);
    }
    for item in more {
        let name = name(&kind, &item, &mut spent);
        // What has no name is like nothing else.
        match places.get(&name).filter(|_| name.is_some()) {
            Some(place) => all[*place] = item,
            None => {
                places.insert(name, all.len());
                all.push(item);
            }
        }
    }
    evaluator.spend(spent)?;
    Ok(Val::List(List::Merged(Arc::new(all), schema)))
}

/// A text that only elements share that are taken for one another. It costs what there is to read.
fn name(kind: &Kind<'_>, item: &Val<'_>, spent: &mut u64) -> Option<String> {
    let name = match (kind, item) {
        (Kind::Set, item) => value_name(item),
        (Kind::Map(keys), Val::Map(table)) => {
            let parts = keys.iter().map(|key| match table.get(key, spent) {
                None => Some(String::new()),
                Some(value) => value.ok().as_ref().and_then(value_name),
            });
            listed(parts)
        }
        _ => None,
    };
    *spent = spent.saturating_add(1 + name.as_ref().map_or(0, String::len) as u64 / 10);
    name
}

/// Which part ends where is said by its length.
fn listed(parts: impl Iterator<Item = Option<String>>) -> Option<String> {
    parts.map(|part| part.map(|part| format!("{}:{part}", part.len()))).collect()
}

/// Numbers that are equal have one name, whatever their types.
fn value_name(value: &Val<'_>) -> Option<String> {
    Some(match value {
        Val::Null => "null".to_owned(),
        Val::Bool(flag) => format!("bool {flag}"),
        Val::Int(n) => format!("number {n}"),
        Val::Uint(n) => format!("number {n}"),
        Val::Double(n) => format!("number {n}"),
        Val::Text(text) => format!("text {}", &**text),
        Val::Bytes(bytes) => format!("bytes {}", STANDARD.encode(bytes)),
        Val::Time(at) => format!("time {}", at.as_nanosecond()),
        Val::Span(span) => format!("span {}", span.as_nanos()),
        Val::Quantity(nanos) => format!("quantity {nanos}"),
        Val::Type(name) => format!("type {name}"),
        Val::Raw(json) => format!("raw {json}"),
        Val::Optional(of) => format!("optional {:?}", of.as_deref().map(value_name)),
        Val::List(list) => format!("list {}", listed(list.all().ok()?.iter().map(value_name))?),
        Val::Map(table) => {
            let entries = table.entries().ok()?;
            let named =
                |(key, value): &(Val<'_>, Val<'_>)| listed([value_name(key), value_name(value)].into_iter());
            let mut parts: Vec<Option<String>> = entries.iter().map(named).collect();
            parts.sort();
            format!("map {}", listed(parts.into_iter())?)
        }
    })
}
