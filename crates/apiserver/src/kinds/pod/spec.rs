//! What a pod may ask for beyond volumes and containers.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use super::{containers, volumes};
use crate::field::Invalid;
use crate::kinds::check::{self, names, selectors};
use crate::kinds::node::EFFECTS;

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

pub fn errors(pod: &str, spec: &PodSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    if spec.termination_grace_period_seconds.is_none() {
        errors.push(Invalid::required("spec.terminationGracePeriodSeconds", ""));
    }
    let (usable, wrong) = volumes::errors(pod, spec.volumes.as_deref().unwrap_or_default());
    errors.extend(wrong);
    errors.extend(containers::errors(spec, &usable));
    let policy = spec.restart_policy.as_deref();
    errors.extend(check::required_one_of("spec.restartPolicy", policy, &RESTART_POLICIES));
    let policy = spec.dns_policy.as_deref();
    errors.extend(check::required_one_of("spec.dnsPolicy", policy, &DNS_POLICIES));
    errors.extend(selectors::labels("spec.nodeSelector", spec.node_selector.as_ref()));
    errors.extend(affinity_errors(spec));
    errors.extend(gate_errors(spec));
    let account = spec.service_account_name.as_deref();
    errors.extend(names::optional_subdomain("spec.serviceAccountName", account));
    errors.extend(names::optional_subdomain("spec.nodeName", spec.node_name.as_deref()));
    errors.extend(spec.active_deadline_seconds.and_then(deadline_error));
    for (field, name) in [("spec.hostname", &spec.hostname), ("spec.subdomain", &spec.subdomain)] {
        let name = name.as_deref().filter(|name| !name.is_empty());
        errors.extend(name.into_iter().flat_map(|name| names::label(field, name)));
    }
    errors.extend(toleration_errors(spec.tolerations.as_deref().unwrap_or_default()));
    let class = spec.priority_class_name.as_deref();
    errors.extend(names::optional_subdomain("spec.priorityClassName", class));
    errors
}

fn deadline_error(seconds: i64) -> Option<Invalid> {
    let most = i64::from(i32::MAX);
    let text = check::range_text(1, most);
    let wrong = !(1..=most).contains(&seconds);
    wrong.then(|| Invalid::invalid("spec.activeDeadlineSeconds", seconds, text))
}

/// Only what decides where volumes have to be: required node affinity.
fn affinity_errors(spec: &PodSpec) -> Vec<Invalid> {
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let node = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node.and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref());
    required.map(|selector| selectors::node_selector(at, selector)).unwrap_or_default()
}

fn gate_errors(spec: &PodSpec) -> Vec<Invalid> {
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    for (index, gate) in gates.iter().enumerate() {
        let at = format!("spec.schedulingGates[{index}]");
        errors.extend(names::qualified(&at, &gate.name));
        if gates[..index].contains(gate) {
            errors.push(Invalid::duplicate(at, gate.name.as_str()));
        }
    }
    errors
}

pub fn toleration_errors(tolerations: &[Toleration]) -> Vec<Invalid> {
    let one = |(index, toleration)| toleration_error(&format!("spec.tolerations[{index}]"), toleration);
    tolerations.iter().enumerate().flat_map(one).collect()
}

fn toleration_error(at: &str, toleration: &Toleration) -> Vec<Invalid> {
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
        other => errors.extend(check::one_of(&at_operator, other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        errors.extend(check::one_of(&format!("{at}.effect"), effect, &EFFECTS));
    }
    errors
}
