//! What a kubelet may report of a pod.

use bowline_api::Pod;
use k8s_openapi::api::core::v1::{ContainerStatus, PodIP, PodSpec, PodStatus};
use serde_json::{Value, json};

use crate::field::Invalid;
use crate::kinds::check::same::immutable;
use crate::kinds::check::{addresses, names};

/// Neither spec, nor deletion, nor owners come through the status.
pub fn prepare(new: &mut Pod, old: &Pod) {
    new.spec = old.spec.clone();
    new.metadata.deletion_timestamp = old.metadata.deletion_timestamp.clone();
    new.metadata.deletion_grace_period_seconds = old.metadata.deletion_grace_period_seconds;
    new.metadata.owner_references = old.metadata.owner_references.clone();
    let before = old.status.clone().unwrap_or_default();
    let status = new.status.get_or_insert_default();
    if status.qos_class.as_deref().unwrap_or_default().is_empty() {
        status.qos_class.clone_from(&before.qos_class);
    }
    if status.observed_generation.unwrap_or(0) == 0 {
        status.observed_generation = before.observed_generation;
    }
    mirror_addresses(status);
}

/// The first address has an old field beside the list; the old field wins when both are set. Those of the host are only
/// compared.
fn mirror_addresses(status: &mut PodStatus) {
    let first = |ips: &Option<Vec<PodIP>>| ips.as_ref().and_then(|ips| ips.first()).map(|ip| ip.ip.clone());
    match (status.pod_ip.clone().filter(|ip| !ip.is_empty()), first(&status.pod_ips)) {
        (Some(ip), listed) if listed.as_ref() != Some(&ip) => status.pod_ips = Some(vec![PodIP { ip }]),
        (None, Some(ip)) => status.pod_ip = Some(ip),
        _ => {}
    }
}

pub fn errors(new: &Pod, old: &Pod) -> Vec<Invalid> {
    let (after, before) = (new.status.clone().unwrap_or_default(), old.status.clone().unwrap_or_default());
    let spec = old.spec.clone().unwrap_or_default();
    let mut errors = Vec::new();
    for (index, condition) in after.conditions.iter().flatten().enumerate() {
        let at = format!("status.conditions[{index}].Type");
        errors.extend(names::qualified(&at, &condition.type_));
    }
    errors.extend(nominated_errors(&after, &before, &spec));
    errors.extend(immutable("status.qosClass", &after.qos_class, &before.qos_class));
    if let Some(seen) = after.observed_generation.filter(|seen| *seen < 0) {
        let text = "must be a non-negative integer";
        errors.push(Invalid::invalid("status.observedGeneration", seen, text));
    }
    errors.extend(address_errors(&after));
    let (after, before) = (after.container_statuses, before.container_statuses);
    errors.extend(revived_errors(
        &after.unwrap_or_default(),
        &before.unwrap_or_default(),
        &spec,
        "status.containerStatuses",
    ));
    errors
}

fn address_errors(status: &PodStatus) -> Vec<Invalid> {
    let pod: Vec<&str> = status.pod_ips.iter().flatten().map(|one| one.ip.as_str()).collect();
    let host: Vec<&str> = status.host_ips.iter().flatten().map(|one| one.ip.as_str()).collect();
    let mut errors = family_errors("status.podIPs", &pod);
    errors.extend(family_errors("status.hostIPs", &host));
    if let Some(first) = host.first().filter(|first| **first != status.host_ip.as_deref().unwrap_or_default())
    {
        errors.push(Invalid::invalid("status.hostIPs[0].ip", *first, "must be equal to `hostIP`"));
    }
    errors
}

/// Valid addresses, at most one of each family.
fn family_errors(at: &str, listed: &[&str]) -> Vec<Invalid> {
    let each = listed.iter().enumerate();
    let mut errors: Vec<Invalid> =
        each.filter_map(|(index, ip)| addresses::ip(&format!("{at}[{index}]"), ip)).collect();
    let pair = matches!(listed, [one, other] if one.contains(':') != other.contains(':'));
    if listed.len() > 1 && !(pair && errors.is_empty()) {
        let shown: Vec<Value> = listed.iter().map(|ip| json!({"IP": ip})).collect();
        errors.push(Invalid::invalid(at, shown, "may specify no more than one IP for each IP family"));
    }
    errors
}

fn nominated_errors(after: &PodStatus, before: &PodStatus, spec: &PodSpec) -> Vec<Invalid> {
    let at = "status.nominatedNodeName";
    let name = after.nominated_node_name.as_deref().unwrap_or_default();
    if name.is_empty() || after.nominated_node_name == before.nominated_node_name {
        return Vec::new();
    }
    let mut errors = names::subdomain(at, name);
    if !spec.node_name.as_deref().unwrap_or_default().is_empty() {
        errors.push(Invalid::forbidden(at, "may not be set on pods that are already bound to a node"));
    }
    errors
}

/// A container that ended and is not restarted stays ended.
fn revived_errors(
    after: &[ContainerStatus],
    before: &[ContainerStatus],
    spec: &PodSpec,
    at: &str,
) -> Vec<Invalid> {
    let ended = |status: &ContainerStatus| status.state.as_ref().and_then(|s| s.terminated.clone());
    let final_end = |status: &ContainerStatus| match spec.restart_policy.as_deref() {
        Some("Never") => ended(status).is_some(),
        Some("OnFailure") => ended(status).is_some_and(|end| end.exit_code == 0),
        _ => false,
    };
    // Containers with a policy of their own decide for themselves.
    let own_policy =
        |name: &str| spec.containers.iter().any(|one| one.name == name && one.restart_policy.is_some());
    let revived =
        |old: &ContainerStatus| after.iter().any(|new| new.name == old.name && ended(new).is_none());
    let found =
        before.iter().enumerate().filter(|(_, old)| final_end(old) && revived(old) && !own_policy(&old.name));
    let text = "may not be transitioned to non-terminated state";
    found.map(|(index, _)| Invalid::forbidden(format!("{at}[{index}].state"), text)).collect()
}
