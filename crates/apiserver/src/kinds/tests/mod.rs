//! Decision tables of the kinds: what is refused and in which words, what may change, what is filled in, what is shown.

mod admission;
mod claim;
mod claim_update;
mod configmap;
mod csidriver;
mod csinode;
mod event;
mod event_v1;
mod jobs;
mod lease;
mod names;
mod namespace;
mod node;
mod plain;
mod pod;
mod pod_cells;
mod pod_defaults;
mod pod_rules;
mod pod_update;
mod pod_volumes;
mod policies;
mod rbac;
mod secret;
mod service;
mod storageclass;
mod volume;
mod volume_update;
mod volumeattachment;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

use super::Rules;
use crate::field::Invalid;
use crate::patch::Patch;
use crate::registry::{Erased, Kind as _, Part, Prepared};

/// Objects without a time of their own are ten minutes old.
pub const CREATED: &str = "2026-01-01T00:00:00Z";
pub const NOW: &str = "2026-01-01T00:10:00Z";

pub fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A table of refusals: name, what is patched into a valid object, expected `field: text`.
pub type Table<'a> = &'a [(&'a str, Value, &'a [&'a str])];

/// The base with a merge patch on top; null removes.
pub fn patched(base: &Value, patch: &Value) -> Value {
    Patch::Merge(patch.clone()).apply(base).unwrap()
}

/// As a body of a request arrives at the rules.
fn decoded<R: Rules>(object: &Value) -> Value {
    Erased::<R>::new().decode(object).expect("fits its type").object
}

fn parsed<R: Rules>(object: &Value) -> R::Object {
    serde_json::from_value(decoded::<R>(object)).unwrap()
}

fn creation<R: Rules>(object: &Value) -> Prepared {
    Erased::<R>::new().prepare_create(decoded::<R>(object), now()).unwrap()
}

fn change<R: Rules>(new: &Value, old: &Value, part: Part) -> Prepared {
    let (new, old) = (decoded::<R>(new), decoded::<R>(old));
    Erased::<R>::new().prepare_update(new, &old, part, now()).unwrap()
}

/// The object as it would be stored.
pub fn created<R: Rules>(object: &Value) -> Value {
    creation::<R>(object).object
}

/// The stored object after an update.
pub fn updated<R: Rules>(new: &Value, old: &Value) -> Value {
    change::<R>(new, old, Part::Main).object
}

/// The stored object after an update of its status.
pub fn reported<R: Rules>(new: &Value, old: &Value) -> Value {
    change::<R>(new, old, Part::Status).object
}

pub fn create_errors<R: Rules>(object: &Value) -> Vec<Invalid> {
    creation::<R>(object).errors
}

pub fn update_errors<R: Rules>(new: &Value, old: &Value) -> Vec<Invalid> {
    change::<R>(new, old, Part::Main).errors
}

pub fn status_errors<R: Rules>(new: &Value, old: &Value) -> Vec<Invalid> {
    change::<R>(new, old, Part::Status).errors
}

/// The stored object after an update through a subresource of its own.
pub fn through<R: Rules>(new: &Value, old: &Value, part: Part) -> Value {
    change::<R>(new, old, part).object
}

pub fn part_errors<R: Rules>(new: &Value, old: &Value, part: Part) -> Vec<Invalid> {
    change::<R>(new, old, part).errors
}

/// An expected text may end in `…`: the rest does not matter.
pub fn assert_errors(name: &str, got: Vec<Invalid>, want: &[&str]) {
    let got: Vec<String> = got.iter().map(ToString::to_string).collect();
    let matches = |(got, want): (&String, &&str)| match want.strip_suffix('…') {
        Some(start) => got.starts_with(start),
        None => got == want,
    };
    let fits = got.len() == want.len() && got.iter().zip(want).all(matches);
    assert!(fits, "{name}\n got: {got:#?}\nwant: {want:#?}");
}

pub fn check_create<R: Rules>(base: &Value, table: Table<'_>) {
    assert_errors("base", create_errors::<R>(base), &[]);
    for (name, patch, want) in table {
        assert_errors(name, create_errors::<R>(&patched(base, patch)), want);
    }
}

/// The patch is what the update changes.
pub fn check_update<R: Rules>(old: &Value, table: Table<'_>) {
    assert_errors("no change", update_errors::<R>(old, old), &[]);
    for (name, patch, want) in table {
        assert_errors(name, update_errors::<R>(&patched(old, patch), old), want);
    }
}

pub fn check_status<R: Rules>(old: &Value, table: Table<'_>) {
    for (name, patch, want) in table {
        assert_errors(name, status_errors::<R>(&patched(old, patch), old), want);
    }
}

/// The header as kubectl prints it, wide columns in brackets.
pub fn header<R: Rules>() -> String {
    let shown = |c: &super::Column| {
        let name = c.name.to_uppercase();
        if c.priority == 0 { name } else { format!("[{name}]") }
    };
    R::columns().iter().map(shown).collect::<Vec<_>>().join(" | ")
}

/// Cells as text, in the order of the header.
pub fn row<R: Rules>(object: &Value) -> String {
    let mut object = object.clone();
    if object["metadata"]["creationTimestamp"].is_null() {
        object["metadata"]["creationTimestamp"] = CREATED.into();
    }
    let cells = R::cells(&parsed::<R>(&object), now());
    assert_eq!(cells.len(), R::columns().len(), "a cell for each column");
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    cells.iter().map(text).collect::<Vec<_>>().join(" | ")
}

/// Field labels as `name=value`.
pub fn labels<R: Rules>(object: &Value) -> Vec<String> {
    let labels = R::field_labels(&parsed::<R>(object));
    let names: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, R::FIELD_LABELS, "labels are declared in the same order");
    labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}
