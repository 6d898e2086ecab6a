//! `matchLabelKeys`: a pod that names labels instead of their values gets the values it was born with.

use bowline_api::Pod;
use k8s_openapi::api::core::v1::PodAffinityTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

pub fn settle(pod: &mut Pod) {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let spec = pod.spec.get_or_insert_default();
    if let Some(affinity) = &mut spec.affinity {
        let near = affinity.pod_affinity.iter_mut().flat_map(|pods| {
            let required = pods.required_during_scheduling_ignored_during_execution.iter_mut().flatten();
            let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter_mut().flatten();
            required.chain(preferred.map(|term| &mut term.pod_affinity_term))
        });
        let far = affinity.pod_anti_affinity.iter_mut().flat_map(|pods| {
            let required = pods.required_during_scheduling_ignored_during_execution.iter_mut().flatten();
            let preferred = pods.preferred_during_scheduling_ignored_during_execution.iter_mut().flatten();
            required.chain(preferred.map(|term| &mut term.pod_affinity_term))
        });
        near.chain(far).for_each(|term| settle_term(term, &labels));
    }
    for constraint in spec.topology_spread_constraints.iter_mut().flatten() {
        if let Some(selector) = &mut constraint.label_selector {
            add(selector, "In", constraint.match_label_keys.as_deref(), &labels);
        }
    }
}

fn settle_term(term: &mut PodAffinityTerm, labels: &Labels) {
    if let Some(selector) = &mut term.label_selector {
        add(selector, "In", term.match_label_keys.as_deref(), labels);
        add(selector, "NotIn", term.mismatch_label_keys.as_deref(), labels);
    }
}

fn add(selector: &mut LabelSelector, operator: &str, keys: Option<&[String]>, labels: &Labels) {
    for key in keys.unwrap_or_default() {
        let Some(value) = labels.get(key) else { continue };
        selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.into(),
            values: Some(vec![value.clone()]),
        });
    }
}
