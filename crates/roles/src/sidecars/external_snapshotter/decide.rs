//! The behaviour: a content's snapshot is taken, watched until it is ready, and deleted, one step at a time.

mod create;
mod status;

use bowline_api::snapshot::DELETE;
use bowline_api::{Meta, VolumeSnapshotContent, keys};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::SecretReference;

use super::model::{Action, Answer, Content, Report, Why};
use crate::sidecars::snapshots::{Names, is_member_content, secret};

pub(super) use status::merged;

type Decision = Step<Action, Why>;

pub fn decide(seen: &Content) -> Decision {
    let content = seen.object.as_ref();
    let status = content.status.as_ref();
    let source = &content.spec.source;
    if should_delete(content) {
        return delete(seen);
    }
    let member = is_member_content(content);
    if source.volume_handle.is_some() && status.is_none() && !member {
        return create::decide(seen);
    }
    if status.and_then(|status| status.ready_to_use) == Some(true) {
        return if being_created(content) { Step::Do(Action::UnmarkBeingCreated) } else { Step::Done };
    }
    let known = status.and_then(|status| status.snapshot_handle.clone());
    match (&source.snapshot_handle, member, known) {
        (Some(handle), ..) => check(seen, handle.clone()),
        (None, true, Some(handle)) => check(seen, handle),
        (None, true, None) => Step::Wait(Why::NoHandles),
        // Readiness is learnt by repeating the call.
        (None, false, _) => create::decide(seen),
    }
}

/// Whether nothing is being created, and whoever owned the snapshot lets go of it. One that was never bound has no owner.
pub(super) fn should_delete(content: &VolumeSnapshotContent) -> bool {
    let unbound = content.spec.volume_snapshot_ref.uid.as_deref().is_none_or(str::is_empty);
    let static_unbound = content.spec.source.snapshot_handle.is_some() && unbound;
    let being_deleted = content.annotation(keys::SNAPSHOT_BEING_DELETED).is_some();
    content.deleting() && (static_unbound || (!being_created(content) && being_deleted))
}

pub(super) fn being_created(content: &VolumeSnapshotContent) -> bool {
    content.annotation(keys::SNAPSHOT_BEING_CREATED).is_some()
}

/// The driver first, then the status, then the finalizer: a crash in between repeats a call that changes nothing.
fn delete(seen: &Content) -> Decision {
    let content = seen.object.as_ref();
    let handle = content.status.as_ref().and_then(|status| status.snapshot_handle.clone());
    // A member of a group goes with the group.
    let handle = handle.filter(|_| content.spec.deletion_policy == DELETE && !is_member_content(content));
    match (handle, &seen.answer) {
        (Some(_), Answer::Deleted) => Step::Do(Action::ClearStatus),
        (Some(handle), _) => match annotated_secret(content) {
            Ok(secret) => Step::Do(Action::Delete { handle, secret }),
            Err(why) => Step::Fail(why),
        },
        (None, _) if content.has_finalizer(keys::SNAPSHOT_CONTENT_BOUND) => Step::Do(Action::RemoveFinalizer),
        (None, _) => Step::Done,
    }
}

/// A snapshot that exists already is looked up.
fn check(seen: &Content, handle: String) -> Decision {
    match &seen.answer {
        Answer::Reported(report) => save_or_wait(seen, report),
        _ if !seen.settings.lists => Step::Do(Action::AssumeReady { handle }),
        _ => match list_secret(seen) {
            Ok(secret) => Step::Do(Action::List { handle, secret }),
            Err(why) => Step::Fail(why),
        },
    }
}

fn save_or_wait(seen: &Content, report: &Report) -> Decision {
    let old = seen.object.status.as_ref();
    let new = merged(old, report);
    if old != Some(&new) {
        return Step::Do(Action::SaveStatus(Box::new(new)));
    }
    if being_created(&seen.object) {
        return Step::Do(Action::UnmarkBeingCreated);
    }
    if report.ready { Step::Done } else { Step::Wait(Why::NotReady) }
}

fn list_secret(seen: &Content) -> Result<Option<SecretReference>, Why> {
    let content = seen.object.as_ref();
    if is_member_content(content) {
        return annotated_secret(content);
    }
    let parameters = match (&content.spec.volume_snapshot_class_name, &seen.class) {
        (Some(_), Some(class)) => class.parameters.as_ref(),
        (Some(name), None) => {
            let text = format!(
                "failed to get snapshot class {name} for snapshot content {}: {}",
                content.name(),
                Why::ClassMissing(name.clone())
            );
            return Err(Why::Secret(text));
        }
        (None, _) => None,
    };
    let names = Names { content: content.name(), ..Names::default() };
    secret(parameters, keys::SNAPSHOTTER_LIST_SECRET, &names).map_err(|why| {
        Why::Secret(format!("failed to get secret reference for snapshot content {}: {why}", content.name()))
    })
}

/// The secret that snapshot-controller noted when it made the content.
fn annotated_secret(content: &VolumeSnapshotContent) -> Result<Option<SecretReference>, Why> {
    let name = content.annotation(keys::SNAPSHOT_DELETION_SECRET_NAME);
    let namespace = content.annotation(keys::SNAPSHOT_DELETION_SECRET_NAMESPACE);
    match (name, namespace) {
        (None, None) => Ok(None),
        (Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => {
            Ok(Some(SecretReference { name: Some(name.into()), namespace: Some(namespace.into()) }))
        }
        _ => Err(Why::Secret(format!(
            "cannot retrieve secrets for snapshot content \"{}\", err: secret name or namespace not specified",
            content.name()
        ))),
    }
}
