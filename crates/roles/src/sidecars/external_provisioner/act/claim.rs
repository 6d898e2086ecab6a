//! CreateVolume, the object of what it made, and asking for another node.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys, volume};
use bowline_machinery::Role;
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Fate, Part, describe};
use bowline_proto::csi::v1::{CreateVolumeResponse, Volume};
use k8s_openapi::api::core::v1::SecretReference;
use tonic::Code;

use super::super::decide::{persistent_volume, selected_node};
use super::super::model::{Claim, Intent, Stored, Unusable, Why};
use super::super::role::Provisioner;
use crate::indexes;

/// How long a request that the driver called invalid rests, as upstream fixes it.
const SLOW: Duration = Duration::from_secs(300);

impl Provisioner {
    pub(super) async fn create(&self, seen: &Claim, intent: &Intent) -> Result<(), EffectError> {
        let claim = seen.object.as_ref();
        let text = format!("External provisioner is provisioning volume for claim \"{}\"", claim.key());
        self.recorder.normal(claim, "Provisioning", text);
        let mut request = intent.creation.request.clone();
        let secrets = self.secrets(intent.creation.secrets.provisioner.as_ref()).await;
        request.secrets = secrets.map_err(|error| explained(seen, intent, error))?;
        // From here on a volume may exist.
        self.memory.change(claim.uid(), |record| record.open = true);
        let send = |request| async move { self.driver.controller().create_volume(request).await };
        let (rpc, object, classes) = ("CreateVolume", describe(claim), Classes::Provisioner);
        let answer = call(&self.effects, rpc, &object, self.timeout, classes, request, send).await;
        match answer {
            Ok(CreateVolumeResponse { volume: Some(made) }) => {
                self.made(seen, intent, &made);
                Ok(())
            }
            Ok(CreateVolumeResponse { volume: None }) => {
                Err(EffectError::unknown("the driver's answer to CreateVolume has no volume"))
            }
            Err(error) => self.not_made(seen, error),
        }
    }

    /// Notes what was made; a volume that is too small, or does not say what it was copied from, must not be used.
    fn made(&self, seen: &Claim, intent: &Intent, made: &Volume) {
        let creation = &intent.creation;
        let object = Arc::new(persistent_volume(seen, &intent.class, creation, made));
        self.memory.change(seen.object.uid(), |record| {
            record.open = false;
            if let Some(why) = unusable(intent, made) {
                let (handle, secret) = (made.volume_id.clone(), creation.secrets.provisioner.clone());
                record.unusable = Some(Unusable { handle, secret, why });
            } else {
                record.unsaved = Some(object);
            }
        });
    }

    /// Final or open, and what the next attempt may do.
    fn not_made(&self, seen: &Claim, mut error: EffectError) -> Result<(), EffectError> {
        if error.lease_lost() && error.fate == Fate::Refused {
            // Not sent: as it was before.
            self.memory.change(seen.object.uid(), |record| record.open = seen.attempt.open);
            return Err(error);
        }
        // An earlier call may have made the volume: most refusals of a repeat say nothing about that.
        let copied = |intent: &Stored| intent.intent.creation.request.volume_content_source.is_some();
        let copied = seen.attempt.stored.as_ref().is_some_and(copied);
        if error.fate == Fate::Unknown || (seen.attempt.open && !proves_absence(error.code, copied)) {
            return Err(error);
        }
        let reschedule = seen.settings.topology && selected_node(&seen.object).is_some();
        let exhausted = error.code == Code::ResourceExhausted as i32 && reschedule;
        let invalid = error.code == Code::InvalidArgument as i32;
        let class = seen.class.as_ref().map(|class| class.uid().to_owned()).unwrap_or_default();
        let until = self.ports.host.uptime.uptime() + SLOW;
        if invalid {
            error.message.push_str(". Retries will be delayed.");
        }
        // People are told once the stored call is removed.
        self.memory.change(seen.object.uid(), |record| {
            record.open = false;
            record.slow = invalid.then_some((until, class));
            (record.exhausted, record.refused) =
                if exhausted { (Some(error.message), None) } else { (None, Some(error.message)) };
        });
        Ok(())
    }

    /// Who has the volume that was made for a claim that is gone. An administrator may have kept it under another name: a
    /// second object would delete it.
    fn owner(&self, seen: &Claim, object: &PersistentVolume) -> Option<String> {
        let unique = volume::unique_name(object).filter(|_| !seen.exists)?;
        let mut owners = self.volumes.indexed(indexes::VOLUMES_BY_UNIQUE_NAME, &unique).into_iter();
        owners.find(|owner| owner.name() != object.name()).map(|owner| owner.name().to_owned())
    }

    /// The volume exists, so this is repeated for ever; one that is there already is ours by name.
    pub(super) async fn save(&self, seen: &Claim) -> Result<(), EffectError> {
        let Some(object) = &seen.attempt.unsaved else { return Ok(()) };
        if let Some(owner) = self.owner(seen, object) {
            tracing::error!(
                claim = seen.object.key().to_string(),
                volume = owner,
                "a repeated CreateVolume for a claim that is gone found a volume that another object has; it is left alone"
            );
            self.memory.change(seen.object.uid(), |record| record.unsaved = None);
            return Ok(());
        }
        match self.effects.create(object.as_ref()).await {
            Err(error) if error.conflict() => {
                let there = self.effects.get_live::<PersistentVolume>("", object.name()).await?;
                let name = object.name();
                let there = there.ok_or_else(|| {
                    EffectError::refused(format!("persistentvolume \"{name}\" existed and is gone"))
                })?;
                // One that goes, or that stands for another volume, is not the object of this one (external-provisioner#1469).
                let same = volume::unique_name(&there) == volume::unique_name(object) && !there.deleting();
                self.volumes.note(there);
                if !same {
                    return Err(EffectError::refused(format!(
                        "persistentvolume \"{name}\" is being deleted or stands for another volume; saved when it is gone"
                    )));
                }
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        self.memory.change(seen.object.uid(), |record| record.unsaved = None);
        if seen.exists {
            let text = format!("Successfully provisioned volume {}", object.name());
            self.recorder.normal(seen.object.as_ref(), "ProvisioningSucceeded", text);
        }
        Ok(())
    }

    pub(super) async fn discard(
        &self,
        seen: &Claim,
        handle: String,
        secret: Option<SecretReference>,
    ) -> Result<(), EffectError> {
        let secrets = self.secrets(secret.as_ref()).await?;
        self.delete_volume(seen.object.as_ref(), handle, secrets).await?;
        let why = seen.attempt.unusable.as_ref().map(|unusable| unusable.why.clone());
        self.memory.change(seen.object.uid(), |record| (record.unusable, record.refused) = (None, why));
        Ok(())
    }

    /// Takes the node back from the claim; the scheduler then chooses again.
    pub(super) async fn reschedule(&self, seen: &Claim, why: &Why) -> Result<(), EffectError> {
        self.tell_failure(&seen.object, &why.to_string());
        let mut claim = seen.object.as_ref().clone();
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.remove(keys::SELECTED_NODE);
        annotations.remove(keys::SELECTED_NODE_ALPHA);
        self.effects.replace(Part::Main, &claim).await?;
        self.memory.change(claim.uid(), |record| record.exhausted = None);
        Ok(())
    }

    pub(super) fn tell_populator(&self, seen: &Claim) {
        let text = "Assuming an external populator will provision the volume";
        self.ports.recorder(Self::NAME).normal(seen.object.as_ref(), "Provisioning", text);
        self.memory.change(seen.object.uid(), |record| record.told_populator = true);
    }

    pub(in super::super) fn tell_failure(&self, claim: &PersistentVolumeClaim, error: &str) {
        let class = volume::claim_class(claim).unwrap_or_default();
        let text = format!("failed to provision volume with StorageClass \"{class}\": {error}");
        self.recorder.warning(claim, "ProvisioningFailed", text);
    }
}

/// Whether the refusal of a repeat says that an earlier call made nothing. CSI wants OK for a volume that is there, so what
/// is wrong with the request, or with the room that it needs, says so; the caller's rights and the state of the backend
/// do not.
///
/// NotFound may mean the source of a copy: the copy may be there although the source is gone by now.
fn proves_absence(code: i32, copied: bool) -> bool {
    let not_found = code == Code::NotFound as i32;
    not_found && !copied
        || [Code::InvalidArgument, Code::OutOfRange, Code::ResourceExhausted, Code::Unimplemented]
            .map(|code| code as i32)
            .contains(&code)
}

/// Why what the driver made is not what was asked for.
fn unusable(intent: &Intent, made: &Volume) -> Option<String> {
    let request = &intent.creation.request;
    let wanted = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
    let got = made.capacity_bytes;
    let asked = intent.claim.spec.as_ref().is_some_and(|spec| spec.data_source.is_some());
    if (1..wanted).contains(&got) {
        Some(format!("created volume capacity {got} less than requested capacity {wanted}"))
    } else if asked && made.content_source.is_none() {
        Some("volume content source missing".to_owned())
    } else {
        None
    }
}

/// For a claim that is gone, the log is the only place where people learn what is missing.
fn explained(seen: &Claim, intent: &Intent, mut error: EffectError) -> EffectError {
    if !seen.exists {
        let name = &intent.creation.request.name;
        error.message.push_str(&format!(
            "; volume `{name}` of a deleted claim may exist and is removed once the secret is there again"
        ));
    }
    error
}
