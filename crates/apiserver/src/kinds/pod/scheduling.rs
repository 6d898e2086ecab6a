//! Where a pod wants to run, and what it puts up with there.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, PodAffinityTerm, Toleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::field::Invalid;
use crate::kinds::check::{self, names, selectors};
use crate::kinds::node::EFFECTS;

pub const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const INCLUSION: [&str; 2] = ["Honor", "Ignore"];

pub fn affinity(at: &str, affinity: Option<&Affinity>) -> Vec<Invalid> {
    let Some(affinity) = affinity else { return Vec::new() };
    let mut errors = Vec::new();
    if let Some(nodes) = &affinity.node_affinity {
        errors.extend(node_affinity(&format!("{at}.nodeAffinity"), nodes));
    }
    let near = affinity.pod_affinity.as_ref().map(|pods| {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        ("podAffinity", required, &pods.preferred_during_scheduling_ignored_during_execution)
    });
    let far = affinity.pod_anti_affinity.as_ref().map(|pods| {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        ("podAntiAffinity", required, &pods.preferred_during_scheduling_ignored_during_execution)
    });
    for (field, required, preferred) in near.into_iter().chain(far) {
        for (index, term) in required.iter().flatten().enumerate() {
            errors.extend(pod_term(&format!("{at}.{field}.{REQUIRED}[{index}]"), term));
        }
        for (index, term) in preferred.iter().flatten().enumerate() {
            errors.extend(weighted_term(&format!("{at}.{field}.{PREFERRED}[{index}]"), term));
        }
    }
    errors
}

fn node_affinity(at: &str, nodes: &NodeAffinity) -> Vec<Invalid> {
    let required = nodes.required_during_scheduling_ignored_during_execution.as_ref();
    let mut errors: Vec<Invalid> = required
        .map(|required| selectors::node_selector(&format!("{at}.{REQUIRED}"), required))
        .unwrap_or_default();
    let preferred = nodes.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    for (index, term) in preferred.enumerate() {
        let at = format!("{at}.{PREFERRED}[{index}]");
        errors.extend(weight_error(&at, term.weight));
        errors.extend(selectors::preferred_node_term(&format!("{at}.preference"), &term.preference));
    }
    errors
}

fn weight_error(at: &str, weight: i32) -> Option<Invalid> {
    let wrong = !(1..=100).contains(&weight);
    wrong.then(|| Invalid::invalid(format!("{at}.weight"), weight, "must be in the range 1-100"))
}

fn weighted_term(at: &str, term: &WeightedPodAffinityTerm) -> Vec<Invalid> {
    let weight = weight_error(at, term.weight);
    weight.into_iter().chain(pod_term(&format!("{at}.podAffinityTerm"), &term.pod_affinity_term)).collect()
}

fn pod_term(at: &str, term: &PodAffinityTerm) -> Vec<Invalid> {
    let mut errors = optional_selector(&format!("{at}.labelSelector"), term.label_selector.as_ref());
    errors.extend(optional_selector(&format!("{at}.namespaceSelector"), term.namespace_selector.as_ref()));
    for name in term.namespaces.iter().flatten() {
        errors.extend(names::label(&format!("{at}.namespace"), name));
    }
    let (same, other) = (term.match_label_keys.as_deref(), term.mismatch_label_keys.as_deref());
    let (same, other) = (same.unwrap_or_default(), other.unwrap_or_default());
    errors.extend(key_errors(&format!("{at}.matchLabelKeys"), same, term.label_selector.as_ref()));
    errors.extend(key_errors(&format!("{at}.mismatchLabelKeys"), other, term.label_selector.as_ref()));
    for (index, key) in same.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let text = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(Invalid::invalid(format!("{at}.matchLabelKeys[{index}]"), key.as_str(), text));
    }
    let field = format!("{at}.topologyKey");
    if term.topology_key.is_empty() {
        errors.push(Invalid::required(field.as_str(), "can not be empty"));
    }
    errors.extend(names::qualified(&field, &term.topology_key));
    errors
}

fn optional_selector(at: &str, selector: Option<&LabelSelector>) -> Vec<Invalid> {
    selector.map(|selector| selectors::label_selector(at, selector)).unwrap_or_default()
}

fn key_errors(at: &str, keys: &[String], selector: Option<&LabelSelector>) -> Vec<Invalid> {
    if !keys.is_empty() && selector.is_none() {
        return vec![Invalid::forbidden(at, "must not be specified when labelSelector is not set")];
    }
    let keys = keys.iter().enumerate();
    keys.flat_map(|(index, key)| names::qualified(&format!("{at}[{index}]"), key)).collect()
}

pub fn spread(at: &str, constraints: &[TopologySpreadConstraint]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let at = format!("{at}[{index}]");
        errors.extend(check::positive(&format!("{at}.maxSkew"), constraint.max_skew.into()));
        if constraint.topology_key.is_empty() {
            errors.push(Invalid::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        let action = constraint.when_unsatisfiable.as_str();
        errors.extend(check::one_of(&format!("{at}.whenUnsatisfiable"), action, &UNSATISFIABLE));
        let twin = |later: &TopologySpreadConstraint| {
            later.topology_key == constraint.topology_key && later.when_unsatisfiable == action
        };
        if constraints[index + 1..].iter().any(twin) {
            let pair = format!("{{{}, {action}}}", constraint.topology_key);
            errors.push(Invalid::duplicate(format!("{at}.{{topologyKey, whenUnsatisfiable}}"), pair));
        }
        errors.extend(domain_errors(&at, constraint));
        let policies = [
            ("nodeAffinityPolicy", constraint.node_affinity_policy.as_deref()),
            ("nodeTaintsPolicy", constraint.node_taints_policy.as_deref()),
        ];
        for (field, policy) in policies {
            errors.extend(
                policy.and_then(|policy| check::one_of(&format!("{at}.{field}"), policy, &INCLUSION)),
            );
        }
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        errors.extend(key_errors(&format!("{at}.matchLabelKeys"), keys, constraint.label_selector.as_ref()));
        errors.extend(optional_selector(&format!("{at}.labelSelector"), constraint.label_selector.as_ref()));
    }
    errors
}

fn domain_errors(at: &str, constraint: &TopologySpreadConstraint) -> Vec<Invalid> {
    let Some(least) = constraint.min_domains else { return Vec::new() };
    let at = format!("{at}.minDomains");
    let action = constraint.when_unsatisfiable.as_str();
    let text = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
    let soft = (action != "DoNotSchedule").then(|| Invalid::invalid(at.as_str(), least, text));
    check::positive(&at, least.into()).into_iter().chain(soft).collect()
}

pub fn tolerations(at: &str, tolerations: &[Toleration]) -> Vec<Invalid> {
    let each = |(index, toleration)| toleration_errors(&format!("{at}[{index}]"), toleration);
    tolerations.iter().enumerate().flat_map(each).collect()
}

fn toleration_errors(at: &str, toleration: &Toleration) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let key = toleration.key.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let at_operator = format!("{at}.operator");
    if !key.is_empty() {
        errors.extend(names::qualified(&format!("{at}.key"), key));
    } else if operator != "Exists" {
        let text =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(Invalid::invalid(at_operator.as_str(), operator, text));
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(Invalid::invalid(format!("{at}.effect"), effect, text));
    }
    match operator {
        "" | "Equal" => {
            let texts = bowline_api::name::label_value_errors(value).join(";");
            let wrong = !texts.is_empty();
            errors.extend(wrong.then(|| Invalid::invalid(at_operator, value, texts)));
        }
        "Exists" if !value.is_empty() => {
            let text = "value must be empty when `operator` is 'Exists'";
            errors.push(Invalid::invalid(at_operator, value, text));
        }
        "Exists" => {}
        other => {
            // Comparing numbers is known and switched off, so upstream lists it among what it refuses.
            let numeric: &[&str] = if matches!(other, "Lt" | "Gt") { &["Lt", "Gt"] } else { &[] };
            let known: Vec<&str> = ["Equal", "Exists"].iter().chain(numeric).copied().collect();
            errors.push(check::not_one_of(&at_operator, other, &known));
        }
    }
    if !effect.is_empty() {
        errors.extend(check::one_of(&format!("{at}.effect"), effect, &EFFECTS));
    }
    errors
}
