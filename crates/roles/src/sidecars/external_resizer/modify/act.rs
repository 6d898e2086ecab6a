//! One effect per action.

use std::collections::BTreeMap;

use bowline_api::{Meta, PersistentVolume, VolumeAttributesClass, keys, volume};
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Fate, Part, describe};
use bowline_machinery::secrets;
use bowline_proto::csi::v1::ControllerModifyVolumeRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tonic::Code;

use super::model::{Action, Failure, Observed, Outcome};
use super::patch;
use super::role::Modifier;

pub(super) const FAILED: &str = "VolumeModifyFailed";

impl Modifier {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match action {
            Action::MarkPending => self.patch_status(&seen, patch::pending(&seen.claim)).await,
            Action::MarkInProgress => self.mark_in_progress(&seen).await,
            Action::Modify { class } => self.modify(&seen, &class).await,
            Action::MarkFailed => self.mark_failed(&seen).await,
            Action::UpdateVolume { target } => {
                let object = volume_of(&seen)?;
                let patch = patch::class(object, &target);
                self.effects.patch_strategic(Part::Main, object, patch).await.map(drop)
            }
            Action::MarkDone { target } => self.mark_done(&seen, &target).await,
            Action::Cancel => {
                self.patch_status(&seen, patch::canceled(&seen.claim)).await?;
                self.recorder.normal(seen.claim.as_ref(), "VolumeModifyCanceled", "Cancelled modify.");
                Ok(())
            }
        }
    }

    fn now(&self) -> Time {
        Time(self.ports.host.clock.now())
    }

    async fn patch_status(&self, seen: &Observed, patch: serde_json::Value) -> Result<(), EffectError> {
        self.effects.patch_strategic(Part::Status, seen.claim.as_ref(), patch).await.map(drop)
    }

    async fn mark_in_progress(&self, seen: &Observed) -> Result<(), EffectError> {
        self.patch_status(seen, patch::in_progress(&seen.claim, &self.now())).await?;
        // Nothing was sent for this class yet, and whatever was sent before had its answer.
        self.memory.change(&seen.claim, |record| {
            (record.certain, record.slow_until, record.outcome) = (true, None, None);
        });
        let (name, class) = (seen.claim.name(), volume::claim_attributes_class(&seen.claim));
        let text = format!("external resizer is modifying volume {name} with vac {class}");
        self.recorder.normal(seen.claim.as_ref(), "VolumeModify", text);
        Ok(())
    }

    async fn modify(&self, seen: &Observed, class: &VolumeAttributesClass) -> Result<(), EffectError> {
        let (claim, target) = (seen.claim.as_ref(), class.name().to_owned());
        let request = match self.request(seen, class).await {
            Ok(request) => request,
            Err(error) => {
                self.recorder.warning(claim, FAILED, error.message.clone());
                return Err(error);
            }
        };
        self.memory.change(claim, |record| record.certain = false);
        let send = |request| async move { self.driver.controller().controller_modify_volume(request).await };
        let (rpc, about) = ("ControllerModifyVolume", describe(claim));
        match call(&self.effects, rpc, &about, self.timeout, Classes::Default, request, send).await {
            Ok(_) => self.memory.change(claim, |record| {
                record.slow_until = None;
                record.outcome = Some(Outcome::Modified { target });
            }),
            Err(error) if error.lease_lost() => {
                // As it was before, if it was not sent.
                let certain = seen.attempt.certain && error.fate == Fate::Refused;
                self.memory.change(claim, |record| record.certain = certain);
                return Err(error);
            }
            Err(EffectError { fate, code, message }) => {
                let last = fate == Fate::Refused;
                let infeasible = last && code == Code::InvalidArgument as i32;
                let until = infeasible.then(|| self.ports.host.uptime.uptime() + self.backoff.max);
                self.memory.change(claim, |record| {
                    (record.certain, record.slow_until) = (last, until);
                    let failure = Failure { last, infeasible, code, message };
                    record.outcome = Some(Outcome::Failed { target, failure });
                });
            }
        }
        Ok(())
    }

    async fn mark_failed(&self, seen: &Observed) -> Result<(), EffectError> {
        let Some(Outcome::Failed { target, failure }) = seen.attempt.outcome.clone() else {
            return Err(EffectError::refused("no failure to write down"));
        };
        self.patch_status(seen, patch::failed(&seen.claim, &failure, &self.now())).await?;
        self.memory.change(&seen.claim, |record| record.outcome = None);
        let mut text = failure.message.clone();
        if !failure.last {
            text.push_str(&format!(". Still modifying to VAC {target}"));
        }
        self.recorder.warning(seen.claim.as_ref(), FAILED, text);
        // The attempt as a whole failed.
        let fate = if failure.last { Fate::Refused } else { Fate::Unknown };
        Err(EffectError { fate, code: failure.code, message: failure.message })
    }

    async fn mark_done(&self, seen: &Observed, target: &str) -> Result<(), EffectError> {
        let claim = seen.claim.as_ref();
        self.patch_status(seen, patch::done(claim, target)).await?;
        self.memory.change(claim, |record| record.outcome = None);
        let text =
            format!("external resizer modified volume {} with vac {target} successfully", claim.name());
        self.recorder.normal(claim, "VolumeModifySuccessful", text);
        Ok(())
    }

    async fn request(
        &self,
        seen: &Observed,
        class: &VolumeAttributesClass,
    ) -> Result<ControllerModifyVolumeRequest, EffectError> {
        let object = volume_of(seen)?;
        let source = volume::csi(object)
            .ok_or_else(|| EffectError::refused(format!("volume {} is not a CSI volume", object.name())))?;
        let mut mutable_parameters = class.parameters.clone().unwrap_or_default();
        if seen.settings.extra_metadata {
            let (claim, volume) = (seen.claim.as_ref(), object.name());
            mutable_parameters.extend([
                (keys::CLAIM_NAME_PARAMETER.to_owned(), claim.name().to_owned()),
                (keys::CLAIM_NAMESPACE_PARAMETER.to_owned(), claim.namespace().to_owned()),
                (keys::VOLUME_NAME_PARAMETER.to_owned(), volume.to_owned()),
            ]);
        }
        Ok(ControllerModifyVolumeRequest {
            volume_id: source.volume_handle.clone(),
            secrets: self.secrets(object).await?,
            mutable_parameters,
        })
    }

    /// The secret that the volume names for this, or else the one for expansions.
    async fn secrets(&self, object: &PersistentVolume) -> Result<BTreeMap<String, String>, EffectError> {
        let expand = volume::csi(object).and_then(|source| source.controller_expand_secret_ref.as_ref());
        let named = |key| object.annotation(key).filter(|value| !value.is_empty()).map(String::from);
        let own = named(keys::MODIFY_SECRET_NAMESPACE).zip(named(keys::MODIFY_SECRET_NAME));
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        match own.or_else(|| expand.map(|secret| (part(&secret.namespace), part(&secret.name)))) {
            Some((namespace, name)) => secrets::read(&self.effects, &namespace, &name).await,
            None => Ok(BTreeMap::new()),
        }
    }
}

fn volume_of(seen: &Observed) -> Result<&PersistentVolume, EffectError> {
    seen.volume.as_deref().ok_or_else(|| EffectError::refused("claim without a volume"))
}
