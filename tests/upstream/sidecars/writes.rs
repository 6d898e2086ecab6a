//! What sidecars wrote, out of the audit log, so that two runs can be compared. A write counts by what it changed: the object
//! that the server answered with against the one that it answered with before, whoever wrote that. What is drawn by chance or
//! read from a clock is replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::cluster::SIDECARS;

/// Who the sidecars are to the API server.
const ACCOUNT: &str = "system:serviceaccount:kube-system:";
/// What the server sets by itself.
const SET_BY_SERVER: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// `component verb resource name: what` for each field, event and request form.
pub type Writes = BTreeSet<String>;

/// Successful writes of [`SIDECARS`].
pub fn written(audited: &[Value]) -> Writes {
    let mut events: Vec<&Value> = audited.iter().filter(|event| is_write(event)).collect();
    // The log is in the order of answers; writes were done in this one.
    events.sort_by_key(|event| version(&event["responseObject"]));
    let (mut writes, mut known) = (Writes::new(), BTreeMap::new());
    for event in events {
        let before = known.get(&identity(event)).copied().unwrap_or(&Value::Null);
        if SIDECARS.iter().any(|(name, _)| *name == component(event)) {
            writes.extend(lines(event, before).iter().map(|line| without_chance(line)));
        }
        known.insert(identity(event), &event["responseObject"]);
    }
    writes
}

fn component(event: &Value) -> &str {
    let user = event["user"]["username"].as_str().unwrap_or_default();
    user.strip_prefix(ACCOUNT).unwrap_or_default()
}

fn is_write(event: &Value) -> bool {
    let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
    let verb = event["verb"].as_str().unwrap_or_default();
    (200..300).contains(&code) && ["create", "update", "patch", "delete"].contains(&verb)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name(event: &Value) -> String {
    let of_body = &event["requestObject"]["metadata"]["name"];
    [&event["objectRef"]["name"], of_body]
        .into_iter()
        .map(text)
        .find(|name| !name.is_empty())
        .unwrap_or_default()
}

fn identity(event: &Value) -> (String, String) {
    (text(&event["objectRef"]["resource"]), name(event))
}

fn lines(event: &Value, before: &Value) -> Vec<String> {
    let (who, name) = (component(event), name(event));
    let (resource, verb) = (text(&event["objectRef"]["resource"]), text(&event["verb"]));
    match (resource.as_str(), verb.as_str()) {
        ("events", "create") => vec![told(who, &event["requestObject"])],
        // That it happened again.
        ("events", _) => Vec::new(),
        // Who leads, and since when.
        ("leases", _) => vec![format!("{who} {verb} leases {name}")],
        (_, "delete") => vec![format!("{who} delete {resource} {name}")],
        (_, "create") => {
            let asked = fields(&event["requestObject"]);
            asked.iter().map(|field| format!("{who} create {resource} {name}: {field}")).collect()
        }
        _ => {
            let part = text(&event["objectRef"]["subresource"]);
            let slash = if part.is_empty() { "" } else { "/" };
            let form = format!("{who} sends {verb} {resource}{slash}{part}");
            let changes = changes(before, &event["responseObject"]);
            let changes = changes.iter().map(|change| format!("{who} changes {resource} {name}: {change}"));
            changes.chain([form]).collect()
        }
    }
}

/// An event is what people read; that it is an object of its own does not matter here.
fn told(who: &str, event: &Value) -> String {
    let about = &event["involvedObject"];
    let (kind, name) = (text(&about["kind"]), text(&about["name"]));
    let (how, reason, message) = (text(&event["type"]), text(&event["reason"]), text(&event["message"]));
    let source = text(&event["source"]["component"]);
    format!("{who} event {kind} {name}: {how} {reason} from {source}: {message}")
}

/// Fields that are new or have another value, and those that are gone.
fn changes(before: &Value, after: &Value) -> Vec<String> {
    let (old, new) = (fields(before), fields(after));
    let added = new.difference(&old).map(|field| format!("+{field}"));
    // A field that has another value now is told above; an item of a list is gone by itself.
    let path = |field: &str| field.split_once('=').map(|(path, _)| path.to_owned()).unwrap_or_default();
    let kept: BTreeSet<String> = new.iter().map(|field| path(field)).collect();
    let removed = old.difference(&new).filter(|field| {
        let path = path(field);
        path.ends_with("[]") || !kept.contains(&path)
    });
    added.chain(removed.map(|field| format!("-{field}"))).collect()
}

fn fields(object: &Value) -> BTreeSet<String> {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !SET_BY_SERVER.contains(&key.as_str()));
    }
    if let Some(object) = object.as_object_mut() {
        object.retain(|key, _| key != "apiVersion" && key != "kind");
    }
    let mut found = BTreeSet::new();
    flatten("", &object, &mut found);
    found
}

/// Items of lists have no place, but conditions have a type.
fn flatten(path: &str, value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{key}"), value, into);
            }
        }
        Value::Array(items) => {
            for item in items {
                flatten(&format!("{path}[{}]", item["type"].as_str().unwrap_or_default()), item, into);
            }
        }
        Value::Null => {}
        value => {
            into.insert(without_chance(&format!("{path}={value}")));
        }
    }
}

/// Replaces what differs from run to run.
fn without_chance(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let patterns = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
            (r"\b[0-9a-f]{64}\b", "HASH"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
            // When a provisioner was started, and a number that it drew.
            (r"\b\d{13}-\d+-", "START-"),
            // Nanoseconds since 1970.
            (r"\b1[789]\d{17}\b", "NANOSECONDS"),
            (r"resourceVersion=.\d+.", "resourceVersion=VERSION"),
            // Of this machine, where a program says who it is.
            (r"(bowline\.dev_|leader/|dev/)[^ :]+( became|:| )", "${1}HOST$2"),
            (r": [^ ]+ became leader", ": HOST became leader"),
        ];
        patterns.map(|(pattern, word)| (Regex::new(pattern).expect("a pattern"), word)).into()
    });
    let mut text = text.to_owned();
    for (pattern, word) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *word).into_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(who: &str, verb: &str, code: u16, version: &str, object: Value) -> Value {
        let mut answer = object.clone();
        answer["metadata"]["resourceVersion"] = version.into();
        json!({"verb": verb, "user": {"username": who}, "objectRef": {"resource": "persistentvolumes", "name": "data"},
            "responseStatus": {"code": code}, "requestObject": object, "responseObject": answer})
    }

    #[test]
    fn a_write_counts_by_what_it_changed_of_what_others_wrote_before() {
        let resizer = "system:serviceaccount:kube-system:csi-resizer";
        let object = |finalizers: &[&str], size: &str| json!({"metadata": {"finalizers": finalizers}, "spec": {"size": size, "at": "2026-01-02T03:04:05Z"}});
        let audited = [
            event(resizer, "update", 200, "12", object(&["b"], "2Gi")),
            event("other", "patch", 200, "11", object(&["a", "b"], "1Gi")),
            event("other", "create", 201, "9", object(&["a"], "1Gi")),
            event(resizer, "patch", 409, "13", object(&[], "3Gi")),
        ];
        let expected = [
            "csi-resizer changes persistentvolumes data: +spec.size=\"2Gi\"",
            "csi-resizer changes persistentvolumes data: -metadata.finalizers[]=\"a\"",
            "csi-resizer sends update persistentvolumes",
        ];
        assert_eq!(written(&audited), expected.map(String::from).into());
    }

    #[test]
    fn an_event_is_what_people_read() {
        let body = json!({"metadata": {"name": "data.18a"}, "type": "Normal", "reason": "Resizing", "message": "m",
            "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data"}, "source": {"component": "external-resizer"}});
        let mut audited = event("system:serviceaccount:kube-system:csi-resizer", "create", 201, "1", body);
        audited["objectRef"]["resource"] = "events".into();
        let told = "csi-resizer event PersistentVolumeClaim data: Normal Resizing from external-resizer: m";
        assert_eq!(written(&[audited]), [told.to_owned()].into());
    }

    #[test]
    fn conditions_are_told_apart_by_their_type() {
        let conditions = |types: &[&str]| {
            let conditions: Vec<Value> =
                types.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
            json!({"status": {"conditions": conditions}})
        };
        let changed = changes(&conditions(&["Resizing"]), &conditions(&["FileSystemResizePending"]));
        let expected = [
            "+status.conditions[FileSystemResizePending].status=\"True\"",
            "-status.conditions[Resizing].status=\"True\"",
        ];
        for change in expected {
            assert!(changed.iter().any(|found| found == change), "{changed:?}");
        }
    }
}
