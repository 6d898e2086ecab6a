//! DeleteVolume, the object's end, and the finalizer.

use bowline_api::volume::{DELETE, RELEASED, reclaim_policy, volume_phase};
use bowline_api::{Meta, PersistentVolume, keys};
use bowline_machinery::effect::{EffectError, Part};
use k8s_openapi::api::core::v1::SecretReference;
use serde_json::json;

use super::super::model::Volume;
use super::super::role::Provisioner;

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

    /// PROV-3: there is no way back from DeleteVolume, so the policy is read past the cache. What differs from the cache
    /// goes into it, for the next decision.
    async fn still_to_delete(&self, seen: &Volume) -> Result<bool, EffectError> {
        let object = seen.object.as_ref();
        let Some(live) = self.effects.get_live::<PersistentVolume>("", object.name()).await? else {
            self.volumes.note_gone(object);
            return Ok(false);
        };
        let same = live.uid() == object.uid();
        let delete = same && reclaim_policy(&live) == DELETE && volume_phase(&live) == RELEASED;
        self.volumes.note(live);
        Ok(delete)
    }
}
