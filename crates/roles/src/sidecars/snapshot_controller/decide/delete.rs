//! A snapshot that is being deleted tells its content to go, and goes after it.

use bowline_api::snapshot::DELETE;
use bowline_api::{Meta, VolumeSnapshotContent, keys};
use bowline_machinery::Step;

use super::super::model::{Action, Snapshot, Why};
use super::{Decision, claim_guarded};
use crate::sidecars::snapshots::points_back;

pub(super) fn decide(seen: &Snapshot) -> Decision {
    let finalizers = [keys::SNAPSHOT_AS_SOURCE, keys::SNAPSHOT_BOUND];
    if !finalizers.iter().any(|finalizer| seen.object.has_finalizer(finalizer)) {
        return Step::Done;
    }
    // One that points elsewhere is not ours, whatever the status says (5.10, 6).
    let content = seen.content.as_deref().filter(|content| points_back(content, &seen.object));
    match (content, &seen.unanswered) {
        // It may exist by now, or come into being later: only a repeat of the create makes that certain.
        (None, Some(unanswered)) => Step::Do(Action::CreateContent(Box::new(unanswered.as_ref().clone()))),
        (None, None) => let_go(seen, &finalizers),
        (Some(content), _) => with_content(seen, content),
    }
}

fn with_content(seen: &Snapshot, content: &VolumeSnapshotContent) -> Decision {
    if seen.restoring.is_some() {
        return Step::Wait(Why::DeletePending("Snapshot is being used to restore a PVC".into()));
    }
    // Whatever the policy: csi-snapshotter may then delete it whenever the content is deleted.
    if content.annotation(keys::SNAPSHOT_BEING_DELETED) != Some(keys::YES) {
        return Step::Do(Action::MarkBeingDeleted);
    }
    if content.spec.deletion_policy != DELETE {
        return let_go(seen, &[keys::SNAPSHOT_AS_SOURCE, keys::SNAPSHOT_BOUND]);
    }
    if !content.deleting() {
        return Step::Do(Action::DeleteContent);
    }
    let_go(seen, &[keys::SNAPSHOT_AS_SOURCE])
}

/// The claim first: without the finalizer on this snapshot, no later pass would release it.
fn let_go(seen: &Snapshot, finalizers: &[&'static str]) -> Decision {
    if claim_guarded(seen) && !seen.claim_used {
        return Step::Do(Action::ReleaseClaim);
    }
    let there = |finalizer: &&&'static str| seen.object.has_finalizer(finalizer);
    let there: Vec<&'static str> = finalizers.iter().filter(there).copied().collect();
    if there.is_empty() {
        Step::Wait(Why::ContentDeleting)
    } else {
        Step::Do(Action::RemoveFinalizers(there))
    }
}
