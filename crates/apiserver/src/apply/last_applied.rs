//! The annotation in which client-side apply keeps what it sent, for objects that move to server-side apply.

use bowline_api::keys;
use serde_json::{Map, Value};

use super::compare::compare;
use super::fields::fields;
use super::set::Set;
use super::{Applied, Conflicts, Kind, Writer};

/// The one manager for which the annotation is looked at and kept up to date.
const KUBECTL: &str = "kubectl";
/// All annotations together.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// Applies; for kubectl, again with force if all that conflicts is what its client-side apply has set.
pub fn adopt(
    live: &Value,
    kind: Kind<'_>,
    writer: &Writer<'_>,
    force: bool,
    apply: impl Fn(bool) -> Result<Applied, Conflicts>,
) -> Result<Applied, Conflicts> {
    let conflicts = match apply(force) {
        Err(conflicts) if writer.manager.name == KUBECTL => conflicts,
        other => return other,
    };
    let Some(own) = unchanged_since(live, kind, &writer.manager.api_version) else { return Err(conflicts) };
    let left = conflicts.except(&own);
    if left.is_empty() { apply(true) } else { Err(left) }
}

/// What client-side apply has set and nobody has changed since.
fn unchanged_since(live: &Value, kind: Kind<'_>, api_version: &str) -> Option<Set> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last["apiVersion"] != api_version {
        return None;
    }
    let difference = compare(&last, live, kind);
    Some(fields(&last, kind).without(&difference.changed).without(&difference.removed))
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object["metadata"]["annotations"][keys::LAST_APPLIED].as_str();
    text.filter(|text| !text.is_empty())
}

/// Keeps the annotation, where there is one, so that a client that goes back to client-side apply finds the truth.
pub fn refresh(object: &mut Value, config: &Value, writer: &Writer<'_>) {
    if writer.manager.name != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    let own = config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(own) = own.and_then(Value::as_object_mut) {
        own.remove(keys::LAST_APPLIED);
    }
    // Upstream's encoder ends with a newline, and clients compare.
    let text = format!("{config}\n");
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(keys::LAST_APPLIED.to_owned(), text.into());
    if size(annotations) > ANNOTATIONS_MAX {
        annotations.remove(keys::LAST_APPLIED);
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum()
}
