//! What must hold of a pod's claims before any node is looked at (reference kube-core.md 2.2).

use bowline_api::{Meta, PersistentVolumeClaim, Pod, keys, volume};

use super::super::model::{ClaimSeen, Observed};

/// The first objection; its text is for people.
pub(super) fn check(seen: &Observed) -> Result<(), String> {
    for claim in &seen.claims {
        usable(&seen.pod, claim)?;
    }
    if seen.claims.iter().any(|claim| stage(claim) == Stage::Immediate) {
        return Err("pod has unbound immediate PersistentVolumeClaims".into());
    }
    Ok(())
}

fn usable(pod: &Pod, seen: &ClaimSeen) -> Result<(), String> {
    let name = &seen.name;
    let Some(claim) = &seen.claim else {
        return Err(if seen.ephemeral {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\"")
        } else {
            format!("persistentvolumeclaim \"{name}\" not found")
        });
    };
    if volume::claim_phase(claim) == volume::LOST {
        let lost = volume::claim_volume(claim);
        return Err(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{lost}\""
        ));
    }
    if claim.deleting() {
        return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if seen.ephemeral && !owned(pod, claim) {
        let (of, pod) = (claim.key(), pod.key());
        return Err(format!("PVC {of} was not created for pod {pod} (pod is not owner)"));
    }
    Ok(())
}

fn owned(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == pod.uid())
}

/// How far a claim is, for the scheduler. The phase does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Bound,
    /// It waits for us to choose a node.
    Delayed,
    /// It should have been bound without us.
    Immediate,
}

pub(super) fn stage(seen: &ClaimSeen) -> Stage {
    let Some(claim) = &seen.claim else { return Stage::Immediate };
    let delayed = seen.class.as_deref().is_some_and(volume::waits_for_consumer);
    if volume::bound(claim) {
        Stage::Bound
    } else if delayed && volume::claim_volume(claim).is_empty() {
        Stage::Delayed
    } else {
        Stage::Immediate
    }
}

/// Claims that wait for a node that is gone: a node of that name has to come back, or their annotation to go.
pub(super) fn hint(seen: &Observed) -> String {
    let mut text = String::new();
    for claim in seen.claims.iter().filter(|claim| stage(claim) == Stage::Delayed) {
        let selected =
            claim.claim.as_ref().and_then(|c| c.annotation(keys::SELECTED_NODE)).unwrap_or_default();
        if !selected.is_empty() && !seen.nodes.iter().any(|node| node.node.name() == selected) {
            text += &format!(
                " persistentvolumeclaim \"{}\" waits for node \"{selected}\", which does not exist: its annotation {} has to go before another node can be chosen.",
                claim.name,
                keys::SELECTED_NODE,
            );
        }
    }
    text
}
