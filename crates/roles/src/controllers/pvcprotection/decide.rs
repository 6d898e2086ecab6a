//! When a claim is guarded, and which pods count. Pure.

use bowline_api::{Meta, Pod, keys, pod};
use bowline_machinery::Step;

use super::model::{Action, Observed, Usage, Why};

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    let guarded = seen.claim.has_finalizer(keys::PVC_PROTECTION);
    match (seen.claim.deleting(), guarded, &seen.usage) {
        (false, false, _) => Step::Do(Action::AddFinalizer),
        (false, true, _) => Step::Done,
        (true, true, Usage::Unused) => Step::Do(Action::RemoveFinalizer),
        (true, true, Usage::Pod(name)) => Step::Wait(Why::Used(name.clone())),
        (true, true, Usage::OnlyLive(user)) => Step::Do(Action::TakeIn(user.clone())),
        (true, true, Usage::Unasked) => Step::Wait(Why::Unasked),
        // A finalizer cannot be added to what is being deleted.
        (true, false, _) => Step::Done,
    }
}

/// Claims that a pod keeps alive, by name.
///
/// A claim named in the pod counts while the pod object exists and has a node, even when it has run to its end: only
/// the kubelet's last word, the deletion, says that everything is unmounted. A generic ephemeral one goes with its
/// pod, so there the end of the shutdown counts.
pub fn used_by(user: &Pod) -> Vec<String> {
    if pod::node_name(user).is_empty() {
        return Vec::new();
    }
    let over = user.deleting() && user.metadata.deletion_grace_period_seconds == Some(0);
    let counts = |volume: &str| {
        let ephemeral = pod::volumes(user).iter().any(|v| v.name == volume && v.ephemeral.is_some());
        !(ephemeral && over)
    };
    pod::claims(user).filter(|(volume, _)| counts(volume)).map(|(_, claim)| claim).collect()
}
