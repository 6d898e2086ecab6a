//! Rules of metadata, which hold for all kinds alike.

use bowline_api::name::{label_value_errors, qualified_name_errors};
use serde_json::Value;

use super::{deleting, finalizers, text};
use crate::field::{Invalid, Reason};
use crate::registry::Kind;

/// All annotations of an object together.
const ANNOTATIONS_MAX: usize = 256 << 10;
const IMMUTABLE: &str = "field is immutable";

pub fn validate(object: &Value, kind: &dyn Kind) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let metadata = &object["metadata"];
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        // The beginning of a name may end with a dash.
        let whole = prefix.strip_suffix('-').map_or_else(|| prefix.to_owned(), |start| format!("{start}a"));
        let wrong = kind.name_errors(&whole).into_iter();
        errors.extend(wrong.map(|why| Invalid::invalid("metadata.generateName", prefix, why)));
    }
    match text(object, "name") {
        "" => errors.push(Invalid::required("metadata.name", "name or generateName is required")),
        name => errors.extend(
            kind.name_errors(name).into_iter().map(|why| Invalid::invalid("metadata.name", name, why)),
        ),
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let keys = qualified_name_errors(key).into_iter();
        errors.extend(keys.map(|why| Invalid::invalid("metadata.labels", key.as_str(), why)));
        let values = label_value_errors(value).into_iter();
        errors.extend(values.map(|why| Invalid::invalid("metadata.labels", value, why)));
    }
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        // Case does not matter in annotation keys, unlike in label keys.
        let lower = key.to_lowercase();
        let keys = qualified_name_errors(&lower).into_iter();
        errors.extend(keys.map(|why| Invalid::invalid("metadata.annotations", key.as_str(), why)));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_MAX {
        errors.push(Invalid {
            reason: Reason::TooLong,
            field: "metadata.annotations".into(),
            value: None,
            detail: format!("may not be more than {ANNOTATIONS_MAX} bytes"),
        });
    }
    errors.extend(owner_errors(&metadata["ownerReferences"]));
    errors.extend(finalizer_errors(&finalizers(object)));
    errors
}

fn finalizer_errors(names: &[&str]) -> Vec<Invalid> {
    /// Upstream's own finalizers, which predate the rule that a finalizer has a prefix.
    const BARE: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let mut errors = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let shape = qualified_name_errors(name).into_iter();
        errors.extend(shape.map(|why| Invalid::invalid("metadata.finalizers", *name, why)));
        if !name.contains('/') && !BARE.contains(name) {
            const WHY: &str = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Invalid::invalid(format!("metadata.finalizers[{index}]"), *name, WHY));
        }
    }
    errors
}

fn owner_errors(owners: &Value) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let mut controllers: Vec<&str> = Vec::new();
    for owner in owners.as_array().into_iter().flatten() {
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences.{field}");
                errors.push(Invalid::invalid(path, "", why));
            }
        }
        if owner["controller"] == true {
            controllers.push(owner["name"].as_str().unwrap_or_default());
        }
    }
    if let [first, second, ..] = controllers[..] {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(Invalid::invalid("metadata.ownerReferences", owners.clone(), why));
    }
    errors
}

/// `new` has already been completed from `old`.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let value = &new["metadata"][field];
        if *value != old["metadata"][field] {
            errors.push(Invalid::invalid(format!("metadata.{field}"), value.clone(), IMMUTABLE));
        }
    }
    if deleting(old) {
        let before = finalizers(old);
        let added: Vec<&str> = finalizers(new).into_iter().filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            errors.push(Invalid::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    shown.join(", ")
                ),
            ));
        }
    }
    errors
}
