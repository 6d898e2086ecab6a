//! One effect per action.

mod claim;
mod intent;
mod ownership;
mod source;
mod volume;

use std::collections::BTreeMap;

use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, describe};
use bowline_machinery::{Object, secrets};
use bowline_proto::csi::v1::DeleteVolumeRequest;
use k8s_openapi::api::core::v1::SecretReference;

use super::model::{Action, Key, Observed};
use super::role::Provisioner;

pub(super) use intent::NO_NAMESPACE;

impl Provisioner {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match (seen, action) {
            (Observed::Claim(seen), Action::Store(intent)) => self.store(&seen, *intent).await,
            (Observed::Claim(seen), Action::Create(intent)) => self.create(&seen, &intent).await,
            (Observed::Claim(seen), Action::Forget) => self.forget(&seen).await,
            (Observed::Intents(unknown), Action::Adopt) => {
                self.adopt(unknown);
                Ok(())
            }
            (Observed::Claim(seen), Action::Save) => self.save(&seen).await,
            (Observed::Claim(seen), Action::Discard { handle, secret }) => {
                self.discard(&seen, handle, secret).await
            }
            (Observed::Claim(seen), Action::Reschedule(why)) => self.reschedule(&seen, &why).await,
            (Observed::Claim(seen), Action::TellPopulator) => {
                self.tell_populator(&seen);
                Ok(())
            }
            (Observed::Claim(seen), Action::AskRoom { requests, needed }) => {
                self.ask_room(&seen, requests, needed).await
            }
            (Observed::Claim(seen), Action::SelectNode(node)) => self.select_node(&seen, &node).await,
            (Observed::Claim(seen), Action::ProtectSource) => self.protect_source(&seen).await,
            (Observed::Snapshot(seen), Action::ReleaseSnapshot) => self.release_snapshot(&seen).await,
            (Observed::Snapshots { left, .. }, Action::HandOnSnapshots) => {
                left.into_iter().for_each(|key| self.queue.add(Key::Snapshot(key)));
                self.memory.note_handed_on(true);
                Ok(())
            }
            (Observed::Source(seen), Action::ReleaseSource) => self.release_source(&seen).await,
            (Observed::Volume(seen), Action::AddFinalizer) => self.add_finalizer(&seen).await,
            (Observed::Volume(seen), Action::RemoveFinalizer) => self.remove_finalizer(&seen).await,
            (Observed::Volume(seen), Action::Delete { handle, secret }) => {
                self.delete(&seen, handle, secret).await
            }
            (Observed::Volume(seen), Action::DeleteObject) => {
                self.effects.delete(seen.object.as_ref(), None).await
            }
            (
                Observed::Claim(_)
                | Observed::Volume(_)
                | Observed::Source(_)
                | Observed::Snapshot(_)
                | Observed::Snapshots { .. }
                | Observed::Intents(_)
                | Observed::Unstorable(_),
                action,
            ) => Err(EffectError::refused(format!("{action:?} does not belong to this kind of object"))),
        }
    }

    async fn delete_volume<K: Object>(
        &self,
        about: &K,
        volume_id: String,
        secrets: BTreeMap<String, String>,
    ) -> Result<(), EffectError> {
        let request = DeleteVolumeRequest { volume_id, secrets };
        let send = |request| async move { self.driver.controller().delete_volume(request).await };
        let (rpc, object, classes) = ("DeleteVolume", describe(about), Classes::Provisioner);
        call(&self.effects, rpc, &object, self.timeout, classes, request, send).await.map(drop)
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
