//! The behaviour: a snapshot gets a content, follows its status, and takes it along when it goes.

mod class;
mod content;
mod delete;
mod status;

use bowline_api::snapshot::DELETE;
use bowline_api::{Meta, keys};
use bowline_machinery::Step;

use super::model::{Action, Content, Observed, Problem, Snapshot, Why};
use crate::sidecars::snapshots::{bound_content, is_member_content, is_ready, points_back, refers};

pub use content::content_name;
pub(super) use status::with_error;

type Decision = Step<Action, Why>;

pub fn decide(seen: &Observed) -> Decision {
    match seen {
        Observed::Snapshot(seen) if seen.object.deleting() => delete::decide(seen),
        Observed::Snapshot(seen) => keep(seen),
        Observed::Content(seen) => guard(seen),
    }
}

/// A content of a snapshot keeps its finalizer, which csi-snapshotter removes, from the moment it is bound.
fn guard(seen: &Content) -> Decision {
    let content = &seen.object;
    let source = &content.spec.source;
    if source.volume_handle.is_some() == source.snapshot_handle.is_some() {
        return Step::Wait(Why::InvalidContent);
    }
    let bound = content.spec.volume_snapshot_ref.uid.as_ref().is_some_and(|uid| !uid.is_empty());
    let guarded = content.has_finalizer(keys::SNAPSHOT_CONTENT_BOUND);
    if bound && !guarded && !content.deleting() { Step::Do(Action::GuardContent) } else { Step::Done }
}

fn keep(seen: &Snapshot) -> Decision {
    if let Some(decision) = class::decide(seen) {
        return decision;
    }
    if claim_guarded(seen) && is_ready(&seen.object) && !seen.claim_used {
        return Step::Do(Action::ReleaseClaim);
    }
    let source = &seen.object.spec.source;
    if source.persistent_volume_claim_name.is_some() == source.volume_snapshot_content_name.is_some() {
        let text =
            "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified";
        return problem(seen, "SnapshotValidationError", text, true);
    }
    let lacking = lacking_finalizers(seen);
    if !lacking.is_empty() {
        return Step::Do(Action::AddFinalizers(lacking));
    }
    match bound_content(&seen.object) {
        Some(_) if is_ready(&seen.object) => verify(seen),
        _ => bind(seen),
    }
}

/// A ready snapshot stays bound to its content, and shows what the content says.
fn verify(seen: &Snapshot) -> Decision {
    match &seen.content {
        None => problem(seen, "SnapshotContentMissing", "VolumeSnapshotContent is missing", true),
        Some(content) if !points_back(content, &seen.object) => {
            let text = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly";
            problem(seen, "SnapshotMisbound", text, true)
        }
        Some(content) => status::copy(seen, content),
    }
}

fn bind(seen: &Snapshot) -> Decision {
    let source = &seen.object.spec.source;
    match (&seen.content, source.volume_snapshot_content_name.is_some()) {
        (Some(content), true) => existing(seen, content),
        (None, true) => problem(seen, "SnapshotContentMissing", "VolumeSnapshotContent is missing", true),
        (None, false) if is_member(seen) => Step::Wait(Why::NoContentYet),
        (Some(content), false) => {
            if content.spec.source.snapshot_handle.is_some() && !is_member(seen) {
                let name = content.name();
                let text = format!(
                    "VolumeSnapshotContent {name} is pre-provisioned while expecting a dynamically provisioned one"
                );
                return problem(seen, "SnapshotContentMismatch", text, true);
            }
            if !points_back(content, &seen.object) {
                return misbound(seen);
            }
            status::copy(seen, content)
        }
        (None, false) => content::create(seen),
    }
}

/// A content that an administrator made for this snapshot.
fn existing(seen: &Snapshot, content: &bowline_api::VolumeSnapshotContent) -> Decision {
    if content.spec.source.snapshot_handle.is_none() {
        let text = "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one";
        return problem(seen, "SnapshotContentMismatch", text, true);
    }
    let uid = content.spec.volume_snapshot_ref.uid.as_deref().filter(|uid| !uid.is_empty());
    if !refers(content, &seen.object) || uid.is_some_and(|uid| uid != seen.object.uid()) {
        return misbound(seen);
    }
    let class = seen.object.spec.volume_snapshot_class_name.clone();
    let class = class.filter(|_| content.spec.volume_snapshot_class_name.is_none());
    if uid.is_none() || class.is_some() {
        return Step::Do(Action::Bind { class });
    }
    status::copy(seen, content)
}

fn misbound(seen: &Snapshot) -> Decision {
    let name = seen.content.as_ref().map(|content| content.name().to_owned()).unwrap_or_default();
    let text = format!("VolumeSnapshotContent [{name}] is bound to a different snapshot");
    problem(seen, "SnapshotContentMisbound", text, true)
}

/// The finalizer of the content's owner comes with the content, and only if the content is to be deleted with it.
fn lacking_finalizers(seen: &Snapshot) -> Vec<&'static str> {
    let takes_along = seen.content.as_ref().is_some_and(|content| content.spec.deletion_policy == DELETE);
    let bound = bound_content(&seen.object).is_some() && takes_along;
    let wanted = [(keys::SNAPSHOT_AS_SOURCE, true), (keys::SNAPSHOT_BOUND, bound)];
    let lacking = |(finalizer, wanted): &(&str, bool)| *wanted && !seen.object.has_finalizer(finalizer);
    wanted.into_iter().filter(lacking).map(|(finalizer, _)| finalizer).collect()
}

fn claim_guarded(seen: &Snapshot) -> bool {
    seen.claim.as_ref().is_some_and(|claim| claim.has_finalizer(keys::SNAPSHOT_SOURCE_CLAIM))
}

/// Whether a group owns it. The owner's version matters, since other versions are other owners to upstream.
pub(super) fn is_member(seen: &Snapshot) -> bool {
    let owners = seen.object.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| {
        owner.kind == "VolumeGroupSnapshot" && owner.api_version == "groupsnapshot.storage.k8s.io/v1"
    }) || seen.content.as_ref().is_some_and(|content| is_member_content(content))
}

/// Reported once per text (5.10, 8), then it waits: whatever is wrong is watched.
fn problem(seen: &Snapshot, reason: &'static str, message: impl Into<String>, not_ready: bool) -> Decision {
    let problem = Problem { reason, message: message.into(), not_ready };
    let status = seen.object.status.as_ref();
    let shown = status.and_then(|status| status.error.as_ref()).and_then(|error| error.message.as_ref());
    let settled = !not_ready || !is_ready(&seen.object);
    if shown == Some(&problem.message) && settled {
        Step::Wait(Why::Problem(problem))
    } else {
        Step::Do(Action::Report(problem))
    }
}
