//! What may change in a pod: images, a shorter deadline, more tolerations, fewer gates.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::{gated, scheduling};
use crate::field::Invalid;
use crate::kinds::check;
use crate::kinds::check::go;
use crate::kinds::check::same::{alike, same};

const SPEC: &str = "core.v1.PodSpec";
const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub fn errors(new: &PodSpec, old: &PodSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let lists = [
        ("spec.containers", new.containers.len(), old.containers.len()),
        ("spec.initContainers", count(&new.init_containers), count(&old.init_containers)),
    ];
    if let Some((field, ..)) = lists.into_iter().find(|(_, after, before)| after != before) {
        return vec![Invalid::forbidden(field, "pod updates may not add or remove containers")];
    }
    if let Some(error) = deadline_error(new.active_deadline_seconds, old.active_deadline_seconds) {
        errors.push(error);
        if new.active_deadline_seconds.is_some() {
            return errors;
        }
    }
    errors.extend(tolerations_errors(new, old));
    errors.extend(gate_errors(new, old));
    if gated::is_gated(old) {
        errors.extend(gated::errors(new, old));
    }
    let allowed = allowed(new, old);
    if !alike(SPEC, &allowed, old) {
        errors.push(Invalid::forbidden("spec", format!("{FIXED}\n{}", go::difference(SPEC, old, &allowed))));
    }
    errors
}

fn count(containers: &Option<Vec<Container>>) -> usize {
    containers.as_ref().map_or(0, Vec::len)
}

fn deadline_error(new: Option<i64>, old: Option<i64>) -> Option<Invalid> {
    let at = "spec.activeDeadlineSeconds";
    let most = i64::from(i32::MAX);
    match (new, old) {
        (Some(new), _) if !(0..=most).contains(&new) => {
            Some(Invalid::invalid(at, new, check::range_text(0, most)))
        }
        (Some(new), Some(old)) if new > old => {
            Some(Invalid::invalid(at, new, "must be less than or equal to previous value"))
        }
        (None, Some(_)) => {
            let text = "must not update from a positive integer to nil value";
            Some(Invalid::invalid(at, serde_json::Value::Null, text))
        }
        _ => None,
    }
}

/// Tolerations stay, but for how long they last, and more may come.
fn tolerations_errors(new: &PodSpec, old: &PodSpec) -> Vec<Invalid> {
    let after = new.tolerations.as_deref().unwrap_or_default();
    let kept = |before: &k8s_openapi::api::core::v1::Toleration| {
        after.iter().any(|one| {
            let mut before = before.clone();
            before.toleration_seconds = one.toleration_seconds;
            same(&before, one)
        })
    };
    if old.tolerations.iter().flatten().all(kept) {
        return scheduling::tolerations("spec.tolerations", after);
    }
    let text = "existing toleration can not be modified except its tolerationSeconds";
    vec![Invalid::forbidden("spec.tolerations", text)]
}

fn gate_errors(new: &PodSpec, old: &PodSpec) -> Vec<Invalid> {
    let before = old.scheduling_gates.as_deref().unwrap_or_default();
    let gates = new.scheduling_gates.as_deref().unwrap_or_default().iter().enumerate();
    let added = gates.filter(|(_, gate)| !before.contains(gate));
    let error = |(index, gate): (usize, &k8s_openapi::api::core::v1::PodSchedulingGate)| {
        let text = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
        Invalid::forbidden(format!("spec.schedulingGates[{index}].name"), text)
    };
    added.map(error).collect()
}

/// The new spec with every permitted change taken back; what still differs is refused.
fn allowed(new: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut spec = new.clone();
    let images = |after: &mut [Container], before: &[Container]| {
        for (after, before) in after.iter_mut().zip(before) {
            after.image.clone_from(&before.image);
        }
    };
    images(&mut spec.containers, &old.containers);
    if let (Some(after), Some(before)) = (&mut spec.init_containers, &old.init_containers) {
        images(after, before);
    }
    spec.active_deadline_seconds = old.active_deadline_seconds;
    spec.scheduling_gates.clone_from(&old.scheduling_gates);
    spec.tolerations.clone_from(&old.tolerations);
    if gated::is_gated(old) {
        gated::take_back(&mut spec, old);
    }
    let (after, before) = (new.termination_grace_period_seconds, old.termination_grace_period_seconds);
    if after == Some(1) && before.is_some_and(|seconds| seconds < 0) {
        spec.termination_grace_period_seconds = before;
    }
    spec
}
