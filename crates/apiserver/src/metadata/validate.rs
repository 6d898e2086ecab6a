//! Rules of metadata, which hold for all kinds alike.

use bowline_api::keys;
use bowline_api::name::qualified_name_errors;
use serde_json::Value;

use super::owners::owner_errors;
use super::{deleting, finalizers, text};
use crate::field::Invalid;
use crate::kinds::check::{names, selectors};
use crate::registry::Kind;

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
    errors.extend(selectors::label_pairs("metadata.labels", pairs(&metadata["labels"])));
    errors.extend(names::annotation_pairs("metadata.annotations", pairs(&metadata["annotations"])));
    errors.extend(owner_errors(&metadata["ownerReferences"]));
    errors.extend(finalizer_errors(&finalizers(object), kind.custom().is_some()));
    errors
}

fn pairs(texts: &Value) -> impl Iterator<Item = (&str, &str)> + Clone {
    let all = texts.as_object().into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Custom resources are only warned of bare names.
fn finalizer_errors(names: &[&str], custom: bool) -> Vec<Invalid> {
    const FIELD: &str = "metadata.finalizers";
    /// Upstream's own finalizers, which predate the rule that a finalizer has a prefix.
    const BARE: [&str; 3] = [keys::ORPHAN_DEPENDENTS, keys::FOREGROUND_DELETION, keys::NAMESPACE_FINALIZER];
    let mut errors = Vec::new();
    for name in names {
        let shape = qualified_name_errors(name).into_iter();
        errors.extend(shape.map(|why| Invalid::invalid(FIELD, *name, why)));
    }
    if [keys::ORPHAN_DEPENDENTS, keys::FOREGROUND_DELETION].iter().all(|both| names.contains(both)) {
        let why = format!(
            "finalizer {} and {} cannot be both set",
            keys::ORPHAN_DEPENDENTS,
            keys::FOREGROUND_DELETION
        );
        errors.push(Invalid::invalid(FIELD, names, why));
    }
    for (index, name) in names.iter().enumerate() {
        if !custom && !name.contains('/') && !BARE.contains(name) {
            const WHY: &str = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Invalid::invalid(format!("{FIELD}[{index}]"), *name, WHY));
        }
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
