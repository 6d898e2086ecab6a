//! One effect per action.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_api::{Meta, VolumeAttachment, keys};
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Part, describe};
use bowline_machinery::secrets;
use bowline_proto::csi::v1::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::model::{Action, Answer, Attachment, Observed, Source, Target, Volume};
use super::role::Attacher;

/// Longest message that the API accepts in `attachError` and `detachError`.
const MESSAGE_BYTES_MAX: usize = 1024;
/// gRPC's.
const NOT_FOUND: i32 = 5;

/// The driver's answers, by attachment name and valid for one UID. Losing them costs a repeated call.
#[derive(Default)]
pub(super) struct Answers(Mutex<BTreeMap<String, (String, Answer)>>);

impl Answers {
    pub(super) fn get(&self, attachment: &VolumeAttachment) -> Answer {
        let found = self.lock().get(attachment.name()).cloned();
        found.filter(|(uid, _)| uid == attachment.uid()).map(|(_, answer)| answer).unwrap_or_default()
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn set(&self, attachment: &VolumeAttachment, answer: Answer) {
        self.lock().insert(attachment.name().to_owned(), (attachment.uid().to_owned(), answer));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (String, Answer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attacher {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match seen {
            Observed::Attachment(seen) => self.on_attachment(action, &seen).await,
            Observed::Volume(seen) => self.unguard_volume(&seen).await,
            Observed::Listing { .. } => self.list().await,
        }
    }

    async fn on_attachment(&self, action: Action, seen: &Attachment) -> Result<(), EffectError> {
        match action {
            Action::GuardVolume => self.guard_volume(seen).await,
            Action::Guard { node_id } => self.guard(seen, &node_id).await,
            Action::Publish { node_id } => self.publish(seen, node_id).await,
            Action::MarkAttached => self.mark_attached(seen).await,
            Action::Unpublish { node_id, handle, secret } => {
                self.unpublish(seen, node_id, handle, secret).await
            }
            Action::Unguard => self.unguard(seen).await,
            Action::MarkDetached => self.mark_detached(seen).await,
            Action::UnguardVolume | Action::List => Ok(()),
        }
    }

    /// Finalizer lists are written whole, so the resourceVersion guards against edits of others.
    async fn guard_volume(&self, seen: &Attachment) -> Result<(), EffectError> {
        let Source::Volume { object, .. } = &seen.source else { return Ok(()) };
        let patch = json!({"metadata": {
            "resourceVersion": object.metadata.resource_version,
            "finalizers": with(object.metadata.finalizers.as_deref(), &self.finalizer),
        }});
        self.effects.patch(Part::Main, object.as_ref(), patch).await.map(drop)
    }

    async fn guard(&self, seen: &Attachment, node_id: &str) -> Result<(), EffectError> {
        let patch = json!({"metadata": {
            "resourceVersion": seen.object.metadata.resource_version,
            "finalizers": with(seen.object.metadata.finalizers.as_deref(), &self.finalizer),
            "annotations": {
                keys::ATTACHMENT_NODE_ID: node_id,
                keys::ATTACHMENT_VOLUME_HANDLE: target(seen)?.handle,
            },
        }});
        self.effects.patch(Part::Main, seen.object.as_ref(), patch).await?;
        // It was about the node that was noted before.
        self.answers.forget(seen.object.name());
        Ok(())
    }

    async fn unguard(&self, seen: &Attachment) -> Result<(), EffectError> {
        let patch = json!({"metadata": {
            "resourceVersion": seen.object.metadata.resource_version,
            "finalizers": without(seen.object.metadata.finalizers.as_deref(), &self.finalizer),
        }});
        gone_is_done(self.effects.patch(Part::Main, seen.object.as_ref(), patch).await)
    }

    async fn unguard_volume(&self, seen: &Volume) -> Result<(), EffectError> {
        let patch = json!({"metadata": {
            "resourceVersion": seen.object.metadata.resource_version,
            "finalizers": without(seen.object.metadata.finalizers.as_deref(), &self.finalizer),
        }});
        gone_is_done(self.effects.patch(Part::Main, seen.object.as_ref(), patch).await)
    }

    async fn publish(&self, seen: &Attachment, node_id: String) -> Result<(), EffectError> {
        let target = target(seen)?;
        // What was detached before may be attached once this call is on its way.
        self.answers.forget(seen.object.name());
        let request = ControllerPublishVolumeRequest {
            volume_id: target.handle.clone(),
            node_id,
            volume_capability: Some(target.capability.clone().map_err(EffectError::refused)?),
            readonly: target.read_only,
            secrets: self.secrets(target.secret.as_ref()).await?,
            volume_context: target.context.clone(),
        };
        let send = |request| async move { self.driver.controller().controller_publish_volume(request).await };
        let (rpc, object) = ("ControllerPublishVolume", describe(seen.object.as_ref()));
        let answer = call(&self.effects, rpc, &object, self.timeout, Classes::Default, request, send).await?;
        self.answers.set(&seen.object, Answer::Published(answer.publish_context));
        Ok(())
    }

    async fn unpublish(
        &self,
        seen: &Attachment,
        node_id: String,
        volume_id: String,
        secret: Option<SecretReference>,
    ) -> Result<(), EffectError> {
        // Whatever was published before is no longer certain once this call is on its way.
        self.answers.forget(seen.object.name());
        let secrets = self.secrets(secret.as_ref()).await?;
        let renamed = seen.node_id.as_ref().is_some_and(|registered| *registered != node_id);
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id, secrets };
        let send =
            |request| async move { self.driver.controller().controller_unpublish_volume(request).await };
        let (rpc, object) = ("ControllerUnpublishVolume", describe(seen.object.as_ref()));
        match call(&self.effects, rpc, &object, self.timeout, Classes::Default, request, send).await {
            Err(error) if renamed && error.code == NOT_FOUND => {
                tracing::info!(%object, %error, "the driver does not know the noted node, asking with the registered id");
                self.answers.set(&seen.object, Answer::NodeUnknown);
                return Ok(());
            }
            answer => answer?,
        };
        self.answers.set(&seen.object, Answer::Unpublished);
        Ok(())
    }

    async fn mark_attached(&self, seen: &Attachment) -> Result<(), EffectError> {
        let context = match &seen.answer {
            Answer::Published(context) => context.clone(),
            Answer::None | Answer::Unpublished | Answer::NodeUnknown => BTreeMap::new(),
        };
        let patch = attached_patch(&seen.object, &context);
        self.effects.patch(Part::Status, seen.object.as_ref(), patch).await?;
        self.answers.forget(seen.object.name());
        self.forced.clear(seen.object.name());
        Ok(())
    }

    async fn mark_detached(&self, seen: &Attachment) -> Result<(), EffectError> {
        let patch = detached_patch(&seen.object);
        gone_is_done(self.effects.patch(Part::Status, seen.object.as_ref(), patch).await)
    }

    /// Tells the attach/detach controller why this attempt failed. Failing to say so changes nothing, so that a conflict is
    /// not tried again: the next failure is saved on what the object is then.
    pub(super) async fn save_error(&self, name: &str, error: &EffectError) {
        let Some(object) = self.attachments.named(name) else { return };
        let field = if object.deleting() { "detachError" } else { "attachError" };
        let mut text = json!({
            "time": Time(self.ports.host.clock.now()),
            "message": shortened(&error.message),
        });
        // gRPC codes end at 16; HTTP codes begin at 100 and are none of the kubelet's business.
        if (1..=16).contains(&error.code) {
            text["errorCode"] = json!(error.code);
        }
        let patch = error_patch(&object, field, text);
        let saved = self.effects.patch(Part::Status, object.as_ref(), patch).await;
        match gone_is_done(saved) {
            Err(error) if error.conflict() => tracing::debug!(attachment = name, %error, "save {field}"),
            Err(error) => tracing::warn!(attachment = name, %error, "save {field}"),
            Ok(()) => {}
        }
    }

    async fn secrets(
        &self,
        reference: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>, EffectError> {
        let Some(reference) = reference else { return Ok(BTreeMap::new()) };
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        secrets::read(&self.effects, &part(&reference.namespace), &part(&reference.name)).await
    }
}

fn target(seen: &Attachment) -> Result<&Target, EffectError> {
    match &seen.source {
        Source::Volume { target, .. } | Source::Inline(target) => Ok(target),
        Source::Unclear | Source::Missing(_) | Source::Foreign(_) => {
            Err(EffectError::refused("attachment without a volume"))
        }
    }
}

/// `attached` is a required field: a status that does not exist yet has to have it. One that exists keeps its own, and the
/// resourceVersion makes sure that it is the one that was seen: the object may have been marked as attached since, by this
/// process whose answer was lost (ATT-2).
pub(super) fn error_patch(object: &VolumeAttachment, field: &str, text: Value) -> Value {
    let mut status = json!({field: text});
    if object.status.is_none() {
        status["attached"] = json!(false);
    }
    json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": status})
}

/// The resourceVersion keeps a patch that was delayed on its way from marking a later attachment of the same name, whose
/// device is another one.
pub(super) fn attached_patch(object: &VolumeAttachment, context: &BTreeMap<String, String>) -> Value {
    let old = object.status.as_ref().and_then(|status| status.attachment_metadata.as_ref());
    let status =
        json!({"attached": true, "attachmentMetadata": replaced_map(old, context), "attachError": null});
    json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": status})
}

/// The same for a detach.
pub(super) fn detached_patch(object: &VolumeAttachment) -> Value {
    let status = json!({"attached": false, "attachmentMetadata": null, "detachError": null});
    json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": status})
}

fn with(finalizers: Option<&[String]>, ours: &str) -> Vec<String> {
    let mut all = finalizers.unwrap_or_default().to_vec();
    if !all.iter().any(|f| f == ours) {
        all.push(ours.into());
    }
    all
}

fn without(finalizers: Option<&[String]>, ours: &str) -> Vec<String> {
    finalizers.unwrap_or_default().iter().filter(|f| *f != ours).cloned().collect()
}

/// A merge patch that leaves exactly `new` of a map: keys that are to go are set to null.
fn replaced_map(old: Option<&BTreeMap<String, String>>, new: &BTreeMap<String, String>) -> Value {
    if new.is_empty() {
        return Value::Null;
    }
    let removed = old.into_iter().flatten().map(|(key, _)| (key.clone(), Value::Null));
    let kept = new.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(removed.chain(kept).collect())
}

fn gone_is_done<K>(result: Result<K, EffectError>) -> Result<(), EffectError> {
    match result {
        Err(error) if !error.not_found() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn shortened(message: &str) -> &str {
    let end = (0..=MESSAGE_BYTES_MAX.min(message.len())).rev().find(|i| message.is_char_boundary(*i));
    &message[..end.unwrap_or(0)]
}
