//! DeleteVolume, the object's end, and the finalizer.

use bowline_api::volume::{DELETE, RELEASED, reclaim_policy, volume_phase};
use bowline_api::{Meta, PersistentVolume, VolumeAttachment, keys, volume};
use bowline_machinery::effect::{EffectError, Part};
use k8s_openapi::api::core::v1::SecretReference;
use serde_json::json;

use super::super::model::Volume;
use super::super::role::Provisioner;
use crate::indexes;

impl Provisioner {
    pub(super) async fn add_finalizer(&self, seen: &Volume) -> Result<(), EffectError> {
        let mut object = seen.object.as_ref().clone();
        object.add_finalizer(keys::PROVISIONER_FINALIZER);
        self.patch_finalizers(&object).await
    }

    pub(super) async fn remove_finalizer(&self, seen: &Volume) -> Result<(), EffectError> {
        let mut object = seen.object.as_ref().clone();
        object.remove_finalizer(keys::PROVISIONER_FINALIZER);
        match self.patch_finalizers(&object).await {
            Err(error) if error.not_found() => Ok(()),
            done => done,
        }
    }

    /// The list is written whole, so the resourceVersion guards against edits of others.
    async fn patch_finalizers(&self, object: &PersistentVolume) -> Result<(), EffectError> {
        let patch = json!({"metadata": {
            "resourceVersion": object.metadata.resource_version,
            "finalizers": object.metadata.finalizers,
        }});
        self.effects.patch(Part::Main, object, patch).await.map(drop)
    }

    pub(super) async fn delete(
        &self,
        seen: &Volume,
        handle: String,
        secret: Option<SecretReference>,
    ) -> Result<(), EffectError> {
        if !self.still_to_delete(seen).await? {
            return Ok(());
        }
        let secrets = self.secrets(secret.as_ref()).await.unwrap_or_else(|error| {
            // A secret that is gone must not keep the volume for ever.
            tracing::warn!(volume = seen.object.name(), %error, "delete without secret");
            Default::default()
        });
        self.delete_volume(seen.object.as_ref(), handle, secrets).await?;
        self.memory.note_deleted(&seen.object);
        Ok(())
    }

    /// There is no way back from DeleteVolume, so the policy (PROV-3) and the attachments (ATT-3) are read past the cache.
    /// What differs from the cache goes into it, for the next decision.
    async fn still_to_delete(&self, seen: &Volume) -> Result<bool, EffectError> {
        let object = seen.object.as_ref();
        let Some(live) = self.effects.get_live::<PersistentVolume>("", object.name()).await? else {
            self.volumes.note_gone(object);
            return Ok(false);
        };
        let same = live.uid() == object.uid();
        let delete = same && reclaim_policy(&live) == DELETE && volume_phase(&live) == RELEASED;
        // The attacher guards the volume before it publishes it: without its finalizer no node has it.
        let guarded = live.has_finalizer(&keys::attacher_finalizer(&self.settings.driver));
        self.volumes.note(live);
        Ok(delete && !(guarded && self.is_attached(object.name()).await?))
    }

    /// Whether any attachment names the volume. One that the watch has passed since the list was made is gone again.
    async fn is_attached(&self, name: &str) -> Result<bool, EffectError> {
        let all: Vec<VolumeAttachment> = self.effects.list_live("").await?;
        let names = |attachment: &VolumeAttachment| volume::attachment_volume(attachment) == Some(name);
        all.into_iter().filter(names).for_each(|attachment| self.attachments.note(attachment));
        Ok(!self.attachments.indexed(indexes::ATTACHMENTS_OF_VOLUME, name).is_empty())
    }
}
