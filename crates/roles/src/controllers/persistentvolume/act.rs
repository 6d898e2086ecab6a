//! One write per action, guarded by the resourceVersion of what was seen.

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, keys, volume};
use bowline_machinery::effect::Part;
use bowline_machinery::events::reference_to;
use bowline_machinery::{EffectError, Fate};

use super::decide::claim_status;
use super::model::{Action, ClaimSeen, Observed};
use super::promise::Promise;
use super::role::Binder;

/// HTTP status of a write that another one forestalled.
const CONFLICT: i32 = 409;

impl Binder {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        let Some(write) = write_for(&action, &seen) else {
            return Err(EffectError::refused(format!("{action:?} does not fit what was seen")));
        };
        let _promise = self.promise(&action, &seen)?;
        match write {
            Write::Claim(claim) => self.effects.replace(Part::Main, &claim).await.map(drop)?,
            Write::ClaimStatus(claim) => self.effects.replace(Part::Status, &claim).await.map(drop)?,
            Write::Volume(volume) => self.effects.replace(Part::Main, &volume).await.map(drop)?,
            Write::VolumeStatus(volume) => self.effects.replace(Part::Status, &volume).await.map(drop)?,
        }
        self.report(&action, &seen);
        Ok(())
    }

    /// Held until the reservation is written and noted; a neighbour that is faster is a conflict like any other.
    fn promise(&self, action: &Action, seen: &Observed) -> Result<Option<Promise>, EffectError> {
        let (Action::Reserve { volume }, Observed::Claim(seen)) = (action, seen) else { return Ok(None) };
        let taken = || EffectError {
            fate: Fate::Refused,
            code: CONFLICT,
            message: format!("volume `{volume}` is being taken by another claim"),
        };
        self.promises.make(volume, &seen.claim.key()).ok_or_else(taken).map(Some)
    }

    /// Bad news comes with the write that shows it, and only when the phase changes.
    fn report(&self, action: &Action, seen: &Observed) {
        match (action, seen) {
            (Action::MarkClaimLost(loss), Observed::Claim(seen))
                if volume::claim_phase(&seen.claim) != volume::LOST =>
            {
                self.recorder.warning(&*seen.claim, loss.reason(), loss.to_string());
            }
            (Action::MarkFailed(failure), Observed::Volume(seen)) => {
                self.recorder.warning(&*seen.volume, failure.reason(), failure.to_string());
            }
            _ => {}
        }
    }
}

/// The object that an action writes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    Claim(PersistentVolumeClaim),
    ClaimStatus(PersistentVolumeClaim),
    Volume(PersistentVolume),
    VolumeStatus(PersistentVolume),
}

/// What an action writes, given what it was decided on; `None` when the two do not belong together.
pub(super) fn write_for(action: &Action, seen: &Observed) -> Option<Write> {
    match seen {
        Observed::Claim(seen) => on_claim(action, seen),
        Observed::Volume(seen) => on_volume(action, &seen.volume),
    }
}

fn on_claim(action: &Action, seen: &ClaimSeen) -> Option<Write> {
    let claim = &*seen.claim;
    Some(match action {
        Action::MigrateClaim(driver) => Write::Claim(migrated(claim, *driver)),
        Action::AssignClass(name) => Write::Claim(with_class(claim, name)),
        Action::Request { provisioner } => Write::Claim(requesting(claim, provisioner)),
        Action::Reserve { volume } => Write::Volume(reserved(seen.volume(volume)?, claim)),
        Action::MarkBound { volume } => {
            Write::VolumeStatus(in_phase(seen.volume(volume)?, volume::BOUND, None))
        }
        Action::Complete { volume } => Write::Claim(completed(claim, volume)),
        Action::MarkClaimBound { volume } => {
            Write::ClaimStatus(with_status(claim, volume::BOUND, Some(seen.volume(volume)?)))
        }
        Action::MarkClaimPending => Write::ClaimStatus(with_status(claim, volume::PENDING, None)),
        Action::MarkClaimLost(_) => Write::ClaimStatus(with_status(claim, volume::LOST, None)),
        Action::Tidy
        | Action::MarkAvailable
        | Action::MarkReleased
        | Action::MarkFailed(_)
        | Action::Unbind => return None,
    })
}

fn on_volume(action: &Action, this: &PersistentVolume) -> Option<Write> {
    Some(match action {
        Action::Tidy => Write::Volume(tidied(this)),
        Action::MarkAvailable => Write::VolumeStatus(in_phase(this, volume::AVAILABLE, None)),
        Action::MarkBound { .. } => Write::VolumeStatus(in_phase(this, volume::BOUND, None)),
        Action::MarkReleased => Write::VolumeStatus(in_phase(this, volume::RELEASED, None)),
        Action::MarkFailed(failure) => {
            Write::VolumeStatus(in_phase(this, volume::FAILED, Some(failure.to_string())))
        }
        Action::Unbind => Write::Volume(unbound(this)),
        Action::MigrateClaim(_)
        | Action::AssignClass(_)
        | Action::Request { .. }
        | Action::Reserve { .. }
        | Action::Complete { .. }
        | Action::MarkClaimBound { .. }
        | Action::MarkClaimPending
        | Action::MarkClaimLost(_) => return None,
    })
}

fn with_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    bound_to: Option<&PersistentVolume>,
) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim.status = Some(claim_status(&claim, phase, bound_to));
    claim
}

fn migrated(claim: &PersistentVolumeClaim, driver: Option<&str>) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    set_or_remove(&mut claim, keys::MIGRATED_TO, driver);
    claim
}

fn with_class(claim: &PersistentVolumeClaim, class: &str) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim.spec.get_or_insert_default().storage_class_name = Some(class.into());
    claim
}

/// Provisioners wake up on either annotation.
fn requesting(claim: &PersistentVolumeClaim, provisioner: &str) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim.set_annotation(keys::STORAGE_PROVISIONER, provisioner);
    claim.set_annotation(keys::STORAGE_PROVISIONER_BETA, provisioner);
    claim
}

/// Only a link that this controller makes carries its mark: without it, letting go keeps a person's reservation.
pub(crate) fn reserved(this: &PersistentVolume, claim: &PersistentVolumeClaim) -> PersistentVolume {
    let by_a_person = volume::claim_ref(this).is_some_and(|reference| volume::refers_to(reference, claim));
    let mut this = this.clone();
    this.spec.get_or_insert_default().claim_ref = Some(reference_to(claim));
    if !by_a_person {
        this.set_annotation(keys::BOUND_BY_CONTROLLER, keys::YES);
    }
    this
}

fn completed(claim: &PersistentVolumeClaim, name: &str) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    if volume::claim_volume(&claim) != name {
        claim.spec.get_or_insert_default().volume_name = Some(name.into());
        claim.set_annotation(keys::BOUND_BY_CONTROLLER, keys::YES);
    }
    claim.set_annotation(keys::BIND_COMPLETED, keys::YES);
    claim
}

/// A link that the controller made goes completely; of a person's, only the UID of the claim that took it.
fn unbound(this: &PersistentVolume) -> PersistentVolume {
    let mut this = this.clone();
    let ours = this.annotation(keys::BOUND_BY_CONTROLLER).is_some();
    let spec = this.spec.get_or_insert_default();
    if ours {
        spec.claim_ref = None;
        set_or_remove(&mut this, keys::BOUND_BY_CONTROLLER, None);
    } else if let Some(reference) = &mut spec.claim_ref {
        reference.uid = None;
    }
    this
}

fn tidied(this: &PersistentVolume) -> PersistentVolume {
    let driver = this.annotation(keys::PROVISIONED_BY).and_then(keys::migrated_driver);
    let mut this = this.clone();
    if this.annotation(keys::PROVISIONED_BY).is_some() {
        set_or_remove(&mut this, keys::MIGRATED_TO, driver);
    }
    if driver.is_some() || volume::reclaim_policy(&this) != volume::DELETE {
        this.remove_finalizer(keys::PV_CONTROLLER_FINALIZER);
    }
    this
}

fn in_phase(this: &PersistentVolume, phase: &str, message: Option<String>) -> PersistentVolume {
    let mut this = this.clone();
    let status = this.status.get_or_insert_default();
    status.phase = Some(phase.into());
    status.message = message;
    this
}

fn set_or_remove<K: Meta>(object: &mut K, key: &str, value: Option<&str>) {
    match (value, &mut object.meta_mut().annotations) {
        (Some(value), annotations) => {
            annotations.get_or_insert_default().insert(key.into(), value.into());
        }
        (None, Some(annotations)) => {
            annotations.remove(key);
        }
        (None, None) => {}
    }
}
