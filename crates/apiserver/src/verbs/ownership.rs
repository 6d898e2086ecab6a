//! Who sets which field. The record travels beside an object and is put into it last.

use jiff::Timestamp;
use serde_json::Value;

use super::{Actor, Call, options};
use crate::apply::{self, Manager, Operation, Writer};
use crate::field::Invalid;
use crate::metadata;
use crate::registry::{Kind, KindInfo};

const RECORD: &str = "managedFields";

/// Takes the record out of an object.
pub fn detach(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(RECORD).filter(|record| !record.is_null())
}

pub fn attach(object: &mut Value, record: Option<Value>) {
    if let Some(record) = record {
        metadata::set(object, RECORD, Some(record));
    }
}

/// How objects of a kind divide among managers.
pub fn shape(kind: &dyn Kind) -> apply::Kind<'_> {
    let info = kind.info();
    apply::Kind::root(&info.api_version, &info.kind, kind.structural_schema())
}

/// The record after a create (`old` is null) or update.
pub fn track(
    kind: &dyn Kind,
    subresource: &str,
    actor: &Actor,
    (old, new): (&Value, &Value),
    sent: Option<Value>,
    now: Timestamp,
) -> Option<Value> {
    let now = time(now);
    let writer = writer(kind.info(), subresource, &actor.manager, Operation::Update, &now);
    apply::track(old, new, sent, shape(kind), &writer)
}

/// The part of the path that names the subresource of a call.
pub fn subresource(call: &Call) -> &str {
    call.subresource.as_deref().unwrap_or_default()
}

pub fn time(now: Timestamp) -> String {
    metadata::timestamp(now).as_str().unwrap_or_default().to_owned()
}

pub fn writer<'a>(
    info: &KindInfo,
    subresource: &str,
    name: &str,
    operation: Operation,
    now: &'a str,
) -> Writer<'a> {
    /// For clients that say nothing of themselves.
    const UNKNOWN: &str = "unknown";
    let manager = Manager {
        name: if name.is_empty() { UNKNOWN } else { name }.to_owned(),
        operation,
        api_version: info.api_version.to_string(),
        subresource: subresource.to_owned(),
    };
    Writer { manager, ignored: ignored(info, subresource), now }
}

/// What a write cannot change, and so cannot own.
fn ignored(info: &KindInfo, subresource: &str) -> &'static [&'static [&'static str]] {
    let resource = (info.group.as_ref(), info.names.plural.as_ref());
    match (subresource, resource) {
        ("" | "finalize", _) if info.status => &[&["status"]],
        ("status", ("", "pods")) => {
            &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        ("status", ("apps", "deployments")) => &[&["spec"], &["metadata", "labels"]],
        ("status", ("storage.k8s.io", "volumeattachments")) => &[&["spec"], &["metadata"]],
        ("status", _) if apply::Kind::is_custom(&info.api_version, &info.kind) => &[&["spec"], &["metadata"]],
        ("status", _) => &[&["spec"]],
        _ => &[],
    }
}

/// What is wrong with a record that a client may have written.
pub fn errors(record: &Option<Value>) -> Vec<Invalid> {
    let entries = record.as_ref().and_then(Value::as_array).into_iter().flatten();
    let named = entries.enumerate().map(|(position, entry)| {
        let name = entry["manager"].as_str().unwrap_or_default();
        options::manager_errors(&format!("metadata.managedFields[{position}].manager"), name)
    });
    named.flatten().collect()
}

/// Whether a write would change nothing but the times of its record.
pub fn unchanged(new: (&Value, &Option<Value>), old: (&Value, &Option<Value>)) -> bool {
    let timeless = |record: &Option<Value>| {
        let mut record = record.clone().unwrap_or_default();
        for entry in record.as_array_mut().into_iter().flatten() {
            entry["time"] = Value::Null;
        }
        record
    };
    new.0 == old.0 && (new.1 == old.1 || timeless(new.1) == timeless(old.1))
}
