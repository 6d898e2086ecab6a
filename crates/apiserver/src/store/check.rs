//! `bowline store check`: reads everything and says what is there and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::backend::Loaded;
use super::errors::OpenError;
use super::etcd::{self, EtcdSettings};
use super::file;
use super::object::Stored;
use crate::metadata;

/// What a store holds.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The last resourceVersion given out.
    pub resource_version: u64,
    pub total: Count,
    /// By `plural.group`.
    pub resources: BTreeMap<String, Count>,
    /// Empty if all is well; one sentence each.
    pub problems: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count {
    pub objects: u64,
    /// Names and JSON.
    pub bytes: u64,
}

/// Reads a data directory; nobody else may have it open. Blocks.
pub fn check_directory(dir: &Path) -> Result<Report, OpenError> {
    if !dir.exists() {
        // Opening would create it, and a misspelt path would look like an empty store.
        let (place, why) = (dir.display().to_string(), "there is no such directory".into());
        return Err(OpenError::Broken { place, why });
    }
    let (_backend, loaded) = file::open(dir)?;
    Ok(report(&loaded, Vec::new()))
}

/// Reads what servers keep in etcd, as of one revision; they may be running.
pub async fn check_etcd(settings: &EtcdSettings) -> Result<Report, OpenError> {
    let (loaded, problems) = etcd::read_all(settings).await?;
    Ok(report(&loaded, problems))
}

fn report(loaded: &Loaded, problems: Vec<String>) -> Report {
    let mut report = Report { resource_version: loaded.version, problems, ..Report::default() };
    let mut versions = BTreeSet::new();
    for (resource, object) in &loaded.objects {
        let count = report.resources.entry(resource.to_string()).or_default();
        for count in [count, &mut report.total] {
            count.objects += 1;
            count.bytes += object.bytes();
        }
        let mut wrong = problems_of(object, loaded.version);
        if !versions.insert(object.version) {
            wrong.push(format!("another object has version {}, too", object.version));
        }
        let place = format!("{resource} {}", object.key);
        report.problems.extend(wrong.into_iter().map(|wrong| format!("{place}: {wrong}")));
    }
    report
}

/// What is wrong with one object.
fn problems_of(object: &Stored, newest: u64) -> Vec<String> {
    let value: Value = match serde_json::from_slice(&object.json) {
        Ok(value) => value,
        Err(error) => return vec![format!("its JSON is not readable: {error}")],
    };
    let mut wrong = Vec::new();
    for field in ["apiVersion", "kind"] {
        if value[field].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("it has no {field}"));
        }
    }
    let expected = [
        ("name", object.key.name.clone()),
        ("namespace", object.key.namespace.clone()),
        ("resourceVersion", object.version.to_string()),
    ];
    for (field, expected) in expected {
        let found = metadata::text(&value, field);
        if found != expected {
            wrong.push(format!("metadata.{field} is {found:?}, stored as {expected:?}"));
        }
    }
    if object.version > newest {
        wrong.push(format!("its version {} is newer than that of the store, {newest}", object.version));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bowline_api::ObjectKey;

    use super::*;

    fn stored(name: &str, version: u64, json: &str) -> (Arc<str>, Arc<Stored>) {
        let key = ObjectKey::new("ns", name);
        ("widgets".into(), Arc::new(Stored::new(key, version, json.to_owned().into())))
    }

    #[test]
    fn each_fault_is_named() {
        let good = r#"{"apiVersion":"v1","kind":"W","metadata":{"name":"a","namespace":"ns","resourceVersion":"3"}}"#;
        let loaded = Loaded {
            version: 5,
            objects: vec![
                stored("a", 3, good),
                stored("b", 4, "{"),
                stored("c", 3, r#"{"metadata":{"name":"x","resourceVersion":"3"}}"#),
                stored("a", 9, &good.replace('3', "9")),
            ],
            ..Loaded::default()
        };
        let report = report(&loaded, vec!["seen before".into()]);
        assert_eq!((report.resource_version, report.total.objects), (5, 4));
        assert_eq!(report.resources["widgets"], report.total);
        assert_eq!(
            report.problems,
            [
                "seen before",
                "widgets ns/b: its JSON is not readable: EOF while parsing an object at line 1 column 1",
                "widgets ns/c: it has no apiVersion",
                "widgets ns/c: it has no kind",
                r#"widgets ns/c: metadata.name is "x", stored as "c""#,
                r#"widgets ns/c: metadata.namespace is "", stored as "ns""#,
                "widgets ns/c: another object has version 3, too",
                "widgets ns/a: its version 9 is newer than that of the store, 5",
            ]
        );
    }
}
