//! What is allowed and still not a good idea.

use bowline_api::name::qualified_name_errors;
use serde_json::Value;

use crate::metadata;

/// Finalizers of upstream's own, which have no prefix.
const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Finalizers without a prefix may be anybody's.
pub fn finalizers(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut names = metadata::finalizers(object);
    names.sort_unstable();
    for name in names {
        let told = |why: &str| format!("metadata.finalizers: {name:?}: {why}");
        warnings.extend(qualified_name_errors(name).iter().map(|why| told(why)));
        if !name.contains('/') && !STANDARD.contains(&name) {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warnings.push(told(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )));
        }
    }
    warnings
}
