//! CreateSnapshot: the first time, until there is a final answer, and then until the snapshot is ready.

use bowline_api::{Meta, VolumeSnapshotClass, keys};
use bowline_machinery::Step;
use bowline_proto::csi::v1::CreateSnapshotRequest;

use super::super::model::{Action, Answer, Content, Settings, Why};
use super::{Decision, annotated_secret, being_created, save_or_wait};
use crate::sidecars::snapshots::for_driver;

pub(super) fn decide(seen: &Content) -> Decision {
    let marked = being_created(&seen.object);
    match &seen.answer {
        Answer::Reported(report) => return save_or_wait(seen, report),
        // Nothing was made, so that nothing keeps the content from being deleted.
        Answer::Refused(_) if marked => return Step::Do(Action::UnmarkBeingCreated),
        Answer::Refused(text) => return Step::Fail(Why::Refused(text.clone())),
        Answer::None | Answer::Deleted => {}
    }
    let prepared = request(seen).and_then(|request| Ok((request, annotated_secret(&seen.object)?)));
    match prepared {
        Err(why) => Step::Fail(why),
        // Before the call, so that a successor knows that a snapshot may exist (5.10, 2).
        Ok(_) if !marked => Step::Do(Action::MarkBeingCreated),
        Ok((request, secret)) => Step::Do(Action::Create { request: Box::new(request), secret }),
    }
}

fn request(seen: &Content) -> Result<CreateSnapshotRequest, Why> {
    let content = seen.object.as_ref();
    let class: &VolumeSnapshotClass = match (&content.spec.volume_snapshot_class_name, &seen.class) {
        (Some(_), Some(class)) => class,
        (Some(name), None) => return Err(Why::ClassMissing(name.clone())),
        (None, _) => return Err(Why::NoClass(content.name().to_owned())),
    };
    let mut parameters = for_driver(class.parameters.as_ref()).map_err(Why::Parameters)?;
    let reference = &content.spec.volume_snapshot_ref;
    if seen.settings.extra_create_metadata {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        parameters.insert(keys::SNAPSHOT_NAME_PARAMETER.into(), text(&reference.name));
        parameters.insert(keys::SNAPSHOT_NAMESPACE_PARAMETER.into(), text(&reference.namespace));
        parameters.insert(keys::SNAPSHOT_CONTENT_NAME_PARAMETER.into(), content.name().to_owned());
    }
    let uid = reference.uid.as_deref().filter(|uid| !uid.is_empty()).ok_or(Why::NoUid)?;
    Ok(CreateSnapshotRequest {
        source_volume_id: content.spec.source.volume_handle.clone().unwrap_or_default(),
        name: snapshot_name(&seen.settings, uid),
        parameters: parameters.into_iter().collect(),
        ..CreateSnapshotRequest::default()
    })
}

/// Derived from the UID of the VolumeSnapshot, so that a repeat finds what the first call made.
fn snapshot_name(settings: &Settings, uid: &str) -> String {
    let uid = match settings.uuid_length {
        None => uid.to_owned(),
        Some(length) => uid.chars().filter(|c| *c != '-').take(length).collect(),
    };
    format!("{}-{uid}", settings.prefix)
}
