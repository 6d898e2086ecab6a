//! JSON bodies as Go's decoder reads them: fields that stand twice are told, and what is no JSON is said in its words.

mod size;
mod syntax;
#[cfg(test)]
mod tests;
mod walk;

use serde_json::Value;

use crate::golang::quoted;
pub use size::{size_at_most, size_within};
use walk::Walk;

/// As deep as a body may be nested: what the JSON reader takes.
pub const DEPTH_MAX: usize = 127;

/// Upstream keeps no more notes than this of one body.
const NOTES_MAX: usize = 100;

/// A body that is JSON.
#[derive(Debug, Default, PartialEq)]
pub struct Reading {
    pub value: Value,
    /// Paths of fields that stand twice in an object, in the order of the text. The last one counts.
    pub duplicates: Vec<String>,
}

/// Whether two values say the same; absent and empty do.
pub fn same(one: &Value, other: &Value) -> bool {
    one == other || (is_empty(one) && is_empty(other))
}

/// Nothing, or a list or an object without anything in it.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The error is what Go says of the text.
pub fn read(body: &[u8]) -> Result<Reading, String> {
    let mut walk = Walk::default();
    let value = walk::parse(body, &mut walk).map_err(|error| {
        syntax::fault(body).unwrap_or_else(|| match error.to_string() {
            deep if deep.starts_with("recursion limit") => syntax::TOO_DEEP.to_owned(),
            other => other,
        })
    })?;
    Ok(Reading { value, duplicates: walk.duplicates })
}

/// How deep a value is nested. What stands alone is not.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// What a strict reader has to say of a body, in the order of its text.
pub fn notes(body: &[u8], unknown: &[String], duplicates: &[String]) -> Vec<String> {
    // Nobody looks into what is unknown.
    let looked_at = |path: &&String| {
        let within = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        !unknown.iter().any(|outer| path.strip_prefix(outer.as_str()).is_some_and(within))
    };
    let unknown = unknown.iter().map(|path| (path, false));
    let mut found: Vec<(&String, bool)> =
        unknown.chain(duplicates.iter().filter(looked_at).map(|path| (path, true))).collect();
    if found.len() > 1 {
        let places = walk::places(body, found.iter().copied());
        found.sort_by_key(|(path, _)| places.get(*path).copied().flatten());
    }
    let told = |(path, again): (&String, bool)| {
        let what = if again { "duplicate" } else { "unknown" };
        format!("{what} field {}", quoted(path))
    };
    found.into_iter().map(told).take(NOTES_MAX).collect()
}
