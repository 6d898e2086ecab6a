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
            Action::UnguardVolume => Ok(()),
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
        self.effects.patch(Part::Main, seen.object.as_ref(), patch).await.map(drop)
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
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id, secrets };
        let send =
            |request| async move { self.driver.controller().controller_unpublish_volume(request).await };
        let (rpc, object) = ("ControllerUnpublishVolume", describe(seen.object.as_ref()));
        call(&self.effects, rpc, &object, self.timeout, Classes::Default, request, send).await?;
        self.answers.set(&seen.object, Answer::Unpublished);
        Ok(())
    }

    async fn mark_attached(&self, seen: &Attachment) -> Result<(), EffectError> {
        let context = match &seen.answer {
            Answer::Published(context) => context.clone(),
            Answer::None | Answer::Unpublished => BTreeMap::new(),
        };
        let old = seen.object.status.as_ref().and_then(|s| s.attachment_metadata.as_ref());
        let patch = json!({"status": {
            "attached": true,
            "attachmentMetadata": replaced_map(old, &context),
            "attachError": null,
        }});
        self.effects.patch(Part::Status, seen.object.as_ref(), patch).await?;
        self.answers.forget(seen.object.name());
        Ok(())
    }

    async fn mark_detached(&self, seen: &Attachment) -> Result<(), EffectError> {
        let patch = json!({"status": {"attached": false, "attachmentMetadata": null, "detachError": null}});
        gone_is_done(self.effects.patch(Part::Status, seen.object.as_ref(), patch).await)
    }

    /// Tells the attach/detach controller why this attempt failed. Failing to say so changes nothing.
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
        let patch = json!({"status": {"attached": seen_attached(&object), field: text}});
        let saved = self.effects.patch(Part::Status, object.as_ref(), patch).await;
        if let Err(error) = gone_is_done(saved) {
            tracing::warn!(attachment = name, %error, "save {field}");
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

/// `attached` is a required field: a patch of a status that does not exist yet has to carry it.
fn seen_attached(object: &VolumeAttachment) -> bool {
    object.status.as_ref().is_some_and(|s| s.attached)
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
