//! What may still change about where a pod runs while gates keep it from the scheduler: it may only become choosier.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
};

use super::scheduling::REQUIRED;
use crate::field::Invalid;
use crate::kinds::check::go;
use crate::kinds::check::same::json;

pub fn is_gated(spec: &PodSpec) -> bool {
    spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())
}

pub fn errors(new: &PodSpec, old: &PodSpec) -> Vec<Invalid> {
    node_selector_error(new, old).into_iter().chain(affinity_errors(new, old)).collect()
}

/// Puts back what [`errors`] has looked at.
pub fn take_back(spec: &mut PodSpec, old: &PodSpec) {
    spec.node_selector.clone_from(&old.node_selector);
    let before = nodes(old).cloned();
    if nodes(spec) == before.as_ref() {
        return;
    }
    match &mut spec.affinity {
        Some(Affinity { pod_affinity: None, pod_anti_affinity: None, .. }) if old.affinity.is_none() => {
            spec.affinity = None;
        }
        Some(affinity) => affinity.node_affinity = before,
        None => spec.affinity = Some(Affinity { node_affinity: before, ..Default::default() }),
    }
}

fn node_selector_error(new: &PodSpec, old: &PodSpec) -> Option<Invalid> {
    let (none, at) = (BTreeMap::new(), "spec.nodeSelector");
    let after = new.node_selector.as_ref().unwrap_or(&none);
    let kept = old.node_selector.iter().flatten().all(|(key, value)| after.get(key) == Some(value));
    let text = format!("only additions to {at} are allowed (no mutations or deletions)");
    (!kept).then(|| Invalid::invalid(at, json(after), text))
}

fn affinity_errors(new: &PodSpec, old: &PodSpec) -> Vec<Invalid> {
    let (after, before) = (terms(new), terms(old));
    let at = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    if before.is_empty() {
        return Vec::new();
    }
    if after.len() != before.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return vec![go::invalid_list(&at, "core.v1.NodeSelectorTerm", after, text)];
    }
    let error = |(index, (after, before)): (usize, (&NodeSelectorTerm, &NodeSelectorTerm))| {
        let text = "only additions are allowed (no mutations or deletions)";
        let at = format!("{at}[{index}]");
        (!only_adds(after, before)).then(|| go::invalid(&at, "core.v1.NodeSelectorTerm", after, text))
    };
    after.iter().zip(before).enumerate().filter_map(error).collect()
}

fn nodes(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref()?.node_affinity.as_ref()
}

fn terms(spec: &PodSpec) -> &[NodeSelectorTerm] {
    let required =
        nodes(spec).and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
    required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default()
}

/// All rules of a term must hold, so that one more makes it match fewer nodes; a term without rules matches none.
fn only_adds(after: &NodeSelectorTerm, before: &NodeSelectorTerm) -> bool {
    fn rules(list: &Option<Vec<NodeSelectorRequirement>>) -> &[NodeSelectorRequirement] {
        list.as_deref().unwrap_or_default()
    }
    let lists = [
        (rules(&after.match_expressions), rules(&before.match_expressions)),
        (rules(&after.match_fields), rules(&before.match_fields)),
    ];
    let was_empty = lists.iter().all(|(_, before)| before.is_empty());
    let is_empty = lists.iter().all(|(after, _)| after.is_empty());
    (is_empty || !was_empty) && lists.iter().all(|(after, before)| after.starts_with(before))
}
