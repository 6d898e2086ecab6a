//! Annotations by which a pod says something to the cluster.

use std::collections::BTreeMap;

use bowline_api::keys::{MIRROR_POD, POD_DELETION_COST};
use bowline_api::{Meta, Pod};
use k8s_openapi::api::core::v1::PodSpec;

use crate::field::Invalid;

/// `at` is where the annotations stand; the spec is that of the same pod or template.
pub fn errors(at: &str, annotations: Option<&BTreeMap<String, String>>, spec: &PodSpec) -> Vec<Invalid> {
    let value = |key: &str| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str);
    let bound = spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    let mirror = value(MIRROR_POD).filter(|_| !bound).map(|value| {
        let text = "must set spec.nodeName if mirror pod annotation is set";
        Invalid::invalid(format!("{at}[{MIRROR_POD}]"), value, text)
    });
    let cost = value(POD_DELETION_COST).filter(|value| !is_cost(value)).map(|value| {
        Invalid::invalid(format!("{at}[{POD_DELETION_COST}]"), value, "must be a 32bit integer")
    });
    mirror.into_iter().chain(cost).collect()
}

/// A number in one notation only, but for zeros after a minus.
fn is_cost(text: &str) -> bool {
    let padded = text.starts_with('+') || (text.starts_with('0') && text.len() > 1);
    !padded && text.parse::<i32>().is_ok()
}

/// What a change may not say. Whether a pod is the picture of another one is settled when it is made: who may read what
/// the pod refers to depends on it.
pub fn change_errors(new: &Pod, old: &Pod) -> Vec<Invalid> {
    let text = match (new.annotation(MIRROR_POD), old.annotation(MIRROR_POD)) {
        (Some(_), None) => Some("may not add mirror pod annotation"),
        (after, before) if after != before => Some("may not remove or update mirror pod annotation"),
        _ => None,
    };
    let at = "metadata.annotations";
    let mirror = text.map(|text| Invalid::forbidden(format!("{at}[{MIRROR_POD}]"), text));
    // Upstream looks at all of them once more.
    let spec = new.spec.clone().unwrap_or_default();
    mirror.into_iter().chain(errors(at, new.metadata.annotations.as_ref(), &spec)).collect()
}
