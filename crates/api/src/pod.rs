//! Readers of pods.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, Volume};

use crate::meta::Meta;

pub fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

/// The node a pod is bound to; empty while unscheduled.
pub fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

pub fn volumes(pod: &Pod) -> &[Volume] {
    pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default()
}

/// Init containers first.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &Container> + Clone {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    init.iter().chain(spec.map(|spec| spec.containers.as_slice()).unwrap_or_default())
}

/// Claim names of a pod with the volume's name in the pod: `(volume, claim)`. Generic ephemeral volumes count under
/// the name of the claim that their controller makes.
pub fn claims(pod: &Pod) -> impl Iterator<Item = (&str, String)> {
    volumes(pod).iter().filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some((volume.name.as_str(), claim.claim_name.clone())),
        (None, Some(_)) => Some((volume.name.as_str(), format!("{}-{}", pod.name(), volume.name))),
        (None, None) => None,
    })
}

/// Whether the pod has run to its end: its volumes are no longer wanted (reference kube-core.md 0.4).
pub fn terminated(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
        || (pod.deleting() && !any_container_running(pod.status.as_ref()))
}

fn any_container_running(status: Option<&PodStatus>) -> bool {
    let Some(status) = status else { return false };
    let lists =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().any(running)
}

fn running(status: &ContainerStatus) -> bool {
    status
        .state
        .as_ref()
        .is_none_or(|s| s.running.is_some() || (s.waiting.is_none() && s.terminated.is_none()))
}

/// Whether the scheduler has looked at the pod and found no place for it.
pub fn unschedulable(pod: &Pod) -> bool {
    node_name(pod).is_empty() && condition(pod, POD_SCHEDULED).is_some_and(|c| c.status == "False")
}

/// The condition that says whether a pod has a node.
pub const POD_SCHEDULED: &str = "PodScheduled";

pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_)
}
