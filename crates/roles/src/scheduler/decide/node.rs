//! Whether a node takes a pod at all: cordons, taints, selectors.

use bowline_api::{Meta, Node, Pod, keys, node, selector};
use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::Refusal;

/// The first objection, in upstream's order.
pub(super) fn objection(pod: &Pod, node: &Node) -> Option<Refusal> {
    if cordoned(node) && !tolerated(pod, &cordon()) {
        Some(Refusal::Unschedulable)
    } else if node::taints(node).iter().filter(|taint| repels(taint)).any(|taint| !tolerated(pod, taint)) {
        Some(Refusal::Taints)
    } else if !selected(pod, node) {
        Some(Refusal::Affinity)
    } else {
        None
    }
}

fn cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false)
}

fn cordon() -> Taint {
    Taint { key: keys::TAINT_UNSCHEDULABLE.into(), effect: NO_SCHEDULE.into(), ..Default::default() }
}

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

fn repels(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE)
}

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// No effect: every effect. No key with `Exists`: every taint.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match text(&toleration.operator).as_str() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

/// The pod's node selector and its required node affinity; preferences are not looked at.
fn selected(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let labels = spec.node_selector.iter().flatten().all(|(key, value)| node.label(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    labels && required.is_none_or(|required| selector::node_matches(&required.node_selector_terms, node))
}
