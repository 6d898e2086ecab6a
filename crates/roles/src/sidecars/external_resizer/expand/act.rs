//! One effect per action.

use bowline_api::{Meta, PersistentVolume, volume};
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Fate, Part, describe};
use bowline_machinery::{capability, secrets};
use bowline_proto::csi::v1::{CapacityRange, ControllerExpandVolumeRequest, VolumeCapability};
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tonic::Code;

use super::model::{Action, Expansion, Observed, Outcome};
use super::patch;
use super::role::Resizer;

const FAILED: &str = "VolumeResizeFailed";

impl Resizer {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match action {
            Action::Mark { target, fresh } => {
                let patch = patch::marked(&seen.claim, &target, fresh, &self.now());
                self.effects.patch_strategic(Part::Status, seen.claim.as_ref(), patch).await?;
                // What was answered before is about an earlier attempt, and only the size that was refused rests.
                self.memory.change_named(&seen.claim.key(), |record| {
                    record.outcome = None;
                    if fresh {
                        record.slow_until = None;
                    }
                });
                Ok(())
            }
            Action::Expand { target } => self.expand(&seen, target).await,
            Action::MarkRefused => self.mark_refused(&seen).await,
            Action::UpdateVolume { size } => self.update_volume(&seen, &size).await,
            Action::MarkNodePending => {
                let patch = patch::node_pending(&seen.claim, &self.now());
                let text = "Require file system resize of volume on node";
                self.conclude(&seen, patch, "node expansion required", ("FileSystemResizeRequired", text))
                    .await
            }
            Action::MarkDone { size } => {
                let patch = patch::done(&seen.claim, &size);
                let event = ("VolumeResizeSuccessful", "Resize volume succeeded");
                self.conclude(&seen, patch, "resize finished", event).await
            }
        }
    }

    fn now(&self) -> Time {
        Time(self.ports.host.clock.now())
    }

    async fn expand(&self, seen: &Observed, target: Quantity) -> Result<(), EffectError> {
        let object = volume_of(seen)?;
        let text = format!("External resizer is resizing volume {}", object.name());
        self.recorder.normal(seen.claim.as_ref(), "Resizing", text);
        self.memory.change(&seen.claim, |record| record.offline_only = false);
        if seen.settings.expansion == Expansion::NodeOnly {
            let size = target.clone();
            self.expanded(seen, Outcome::Expanded { target, size, node: true });
            return Ok(());
        }
        let request = match self.request(object, &target).await {
            Ok(request) => request,
            // Nothing was sent now, but it is not known what an earlier call came to.
            Err(error) => return Err(self.uncertain(seen, error)),
        };
        let required = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        let send = |request| async move { self.driver.controller().controller_expand_volume(request).await };
        let (rpc, about) = ("ControllerExpandVolume", describe(seen.claim.as_ref()));
        match call(&self.effects, rpc, &about, self.timeout, Classes::Default, request, send).await {
            // RES-1: an answer that confirms less must become neither the volume's size nor the claim's.
            Ok(answer) if answer.capacity_bytes < required => {
                let text = format!(
                    "the driver answered with {} bytes where {required} are required",
                    answer.capacity_bytes
                );
                Err(self.uncertain(seen, EffectError::unknown(text)))
            }
            Ok(answer) => {
                let size = bowline_api::quantity_of(answer.capacity_bytes);
                let node = answer.node_expansion_required;
                self.expanded(seen, Outcome::Expanded { target, size, node });
                Ok(())
            }
            // It was not sent.
            Err(error) if error.lease_lost() && error.fate == Fate::Refused => Err(error),
            Err(error) if error.fate == Fate::Unknown => Err(self.uncertain(seen, error)),
            Err(error) => {
                self.refused(seen, target, error);
                Ok(())
            }
        }
    }

    fn expanded(&self, seen: &Observed, outcome: Outcome) {
        self.memory.change(&seen.claim, |record| {
            record.uncertain();
            record.outcome = Some(outcome);
        });
    }

    /// Final: the status is to say so before it is tried again.
    fn refused(&self, seen: &Observed, target: Quantity, error: EffectError) {
        let is = |code: Code| error.code == code as i32;
        let infeasible = is(Code::InvalidArgument) || is(Code::OutOfRange) || is(Code::NotFound);
        let slow_until = infeasible.then(|| self.ports.host.uptime.uptime() + self.backoff.max);
        self.memory.change(&seen.claim, |record| {
            (record.refused, record.slow_until) = (true, slow_until);
            record.offline_only = self.pods.is_some() && is(Code::FailedPrecondition);
            let EffectError { code, message, .. } = error.clone();
            record.outcome = Some(Outcome::Refused { target, infeasible, code, message });
        });
    }

    /// The call may have taken effect, so that the same size is asked for again.
    fn uncertain(&self, seen: &Observed, error: EffectError) -> EffectError {
        self.memory.change(&seen.claim, super::memory::Record::uncertain);
        self.tell_failure(seen, &error.message);
        error
    }

    fn tell_failure(&self, seen: &Observed, error: &str) {
        let (volume, driver) = (volume::claim_volume(&seen.claim), &self.settings.driver);
        let text = format!("resize volume \"{volume}\" by resizer \"{driver}\" failed: {error}");
        self.recorder.warning(seen.claim.as_ref(), FAILED, text);
    }

    async fn mark_refused(&self, seen: &Observed) -> Result<(), EffectError> {
        let Some(Outcome::Refused { infeasible, code, message, .. }) = seen.attempt.outcome.clone() else {
            return Err(EffectError::refused("no refusal to write down"));
        };
        let patch = patch::refused(&seen.claim, infeasible, &message, &self.now());
        match self.effects.patch_strategic(Part::Status, seen.claim.as_ref(), patch).await {
            Err(error) if !error.not_found() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        self.memory.change(&seen.claim, |record| record.outcome = None);
        self.tell_failure(seen, &message);
        // The attempt as a whole failed.
        Err(EffectError { fate: Fate::Refused, code, message })
    }

    async fn update_volume(&self, seen: &Observed, size: &Quantity) -> Result<(), EffectError> {
        let object = volume_of(seen)?;
        let patch = patch::capacity(object, size);
        match self.effects.patch_strategic(Part::Main, object, patch).await {
            Err(error) if !error.conflict() => {
                let text =
                    format!("updating capacity of PV \"{}\" to {} failed: {error}", object.name(), size.0);
                self.recorder.warning(seen.claim.as_ref(), FAILED, text);
                Err(error)
            }
            written => written.map(drop),
        }
    }

    /// The last write of an expansion. When it is there, the driver's answer is no longer needed.
    async fn conclude(
        &self,
        seen: &Observed,
        patch: serde_json::Value,
        what: &str,
        (reason, text): (&'static str, &str),
    ) -> Result<(), EffectError> {
        let claim = seen.claim.as_ref();
        match self.effects.patch_strategic(Part::Status, claim, patch).await {
            Err(error) if !error.conflict() => {
                let text = format!("mark PVC \"{}\" as {what} failed: {error}", claim.key());
                self.recorder.warning(claim, FAILED, text);
                return Err(error);
            }
            written => written?,
        };
        self.memory.change(claim, |record| record.outcome = None);
        self.recorder.normal(claim, reason, text);
        Ok(())
    }

    async fn request(
        &self,
        object: &PersistentVolume,
        target: &Quantity,
    ) -> Result<ControllerExpandVolumeRequest, EffectError> {
        let wrong = |why: String| EffectError::unknown(format!("volume {}: {why}", object.name()));
        let source = volume::csi(object).ok_or_else(|| wrong("is not a CSI volume".to_owned()))?;
        let required_bytes = bowline_api::bytes_of(target).map_err(|error| wrong(error.to_string()))?;
        let spec = object.spec.as_ref().ok_or_else(|| wrong("has no spec".to_owned()))?;
        let secrets = match &source.controller_expand_secret_ref {
            None => Default::default(),
            Some(reference) => {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                secrets::read(&self.effects, &part(&reference.namespace), &part(&reference.name)).await?
            }
        };
        Ok(ControllerExpandVolumeRequest {
            volume_id: source.volume_handle.clone(),
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
            secrets,
            volume_capability: Some(self.capability(spec).map_err(wrong)?),
        })
    }

    fn capability(&self, spec: &PersistentVolumeSpec) -> Result<VolumeCapability, String> {
        let modes = spec.access_modes.as_deref().unwrap_or_default();
        let mode = capability::access_mode(modes, self.single_node)?;
        if spec.volume_mode.as_deref() == Some(volume::BLOCK) {
            return Ok(capability::block(mode));
        }
        let fs_type = spec.csi.as_ref().and_then(|source| source.fs_type.as_deref()).unwrap_or_default();
        Ok(capability::mount(mode, fs_type, spec.mount_options.as_deref().unwrap_or_default()))
    }
}

fn volume_of(seen: &Observed) -> Result<&PersistentVolume, EffectError> {
    seen.volume.as_deref().ok_or_else(|| EffectError::refused("claim without a volume"))
}
