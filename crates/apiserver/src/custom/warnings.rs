//! What is allowed and still not a good idea.

use std::collections::BTreeSet;

use bowline_api::name::qualified_name_errors;
use serde_json::Value;

use crate::metadata;

/// Finalizers of upstream's own, which have no prefix.
const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Finalizers without a prefix may be anybody's. Whoever only keeps them is not told again.
pub fn finalizers(object: &Value, old: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let before = BTreeSet::from_iter(metadata::finalizers(old));
    let names = BTreeSet::from_iter(metadata::finalizers(object));
    for name in names.difference(&before) {
        let told = |why: &str| format!("metadata.finalizers: {name:?}: {why}");
        warnings.extend(qualified_name_errors(name).iter().map(|why| told(why)));
        if !name.contains('/') && !STANDARD.contains(name) {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warnings.push(told(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )));
        }
    }
    warnings
}
