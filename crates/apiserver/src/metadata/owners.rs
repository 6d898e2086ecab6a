//! Owner references: what an object may say of its owners.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{Invalid, Reason};

const FIELD: &str = "metadata.ownerReferences";
/// Bytes of complaints about controllers, each of which repeats all owners, after which there are no more.
const TOLD_MAX: usize = 1 << 20;
/// In upstream's order, which shows in texts.
const FIELDS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

pub fn owner_errors(owners: &Value) -> Vec<Invalid> {
    let owners = owners.as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |owner: &Value| format!("{}/{}", text(owner, "kind"), text(owner, "name"));
    let (mut errors, mut controller, mut told) = (Vec::new(), None, 0);
    for owner in owners {
        errors.extend(errors_of_one(owner));
        if owner["controller"] != true {
            continue;
        }
        let Some(first) = &controller else {
            controller = Some(name(owner));
            continue;
        };
        if told > TOLD_MAX {
            continue;
        }
        let shown: Vec<String> = owners.iter().map(shown).collect();
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {}",
            name(owner)
        );
        let error = invalid(&format!("[{}]", shown.join(",")), &why);
        told += error.detail.len();
        errors.push(error);
    }
    errors
}

fn errors_of_one(owner: &Value) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let mut empty = |field: &str, value: &str, why: &str| {
        errors.push(Invalid::invalid(format!("{FIELD}.{field}"), value, why));
    };
    let api_version = text(owner, "apiVersion");
    if version(api_version).is_empty() {
        empty("apiVersion", api_version, "version must not be empty");
    }
    for field in ["kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            empty(field, "", "must not be empty");
        }
    }
    if (api_version, text(owner, "kind")) == ("v1", "Event") {
        errors.push(invalid(&shown(owner), "/v1, Kind=Event is disallowed from being an owner"));
    }
    errors
}

/// The version of `version` or `group/version`; empty if it is neither.
fn version(api_version: &str) -> &str {
    match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if version.contains('/') => "",
        Some((_, version)) => version,
    }
}

fn text<'a>(owner: &'a Value, field: &str) -> &'a str {
    owner[field].as_str().unwrap_or_default()
}

fn shown(owner: &Value) -> String {
    let fields = FIELDS.iter().filter(|field| !owner[**field].is_null());
    let fields: Vec<String> = fields.map(|field| format!("{field:?}:{}", owner[*field])).collect();
    format!("{{{}}}", fields.join(","))
}

/// The value is part of the detail because the order of its fields matters.
fn invalid(value: &str, why: &str) -> Invalid {
    Invalid { reason: Reason::Invalid, field: FIELD.into(), value: None, detail: format!("{value}: {why}") }
}

/// Drops references that stand twice. The answer is what to warn of, after `moment`.
pub fn fold_owners(object: &mut Value, moment: &str) -> Option<String> {
    let owners = object["metadata"].get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen = HashSet::with_capacity(owners.len());
    let mut dropped: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let first = seen.insert(owner.clone());
        if !first {
            dropped.push(text(owner, "uid").to_owned());
        }
        first
    });
    (!dropped.is_empty()).then(|| {
        format!(
            ".{FIELD} contains duplicate entries{moment}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            dropped.join(", ")
        )
    })
}
