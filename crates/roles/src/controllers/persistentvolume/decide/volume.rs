//! What happens to a volume that no claim's key is binding.

use bowline_api::{Meta, PersistentVolume, keys, volume};
use bowline_machinery::Step;

use super::super::model::{Action, Failure, VolumeSeen, Why};
use super::migration_due;

pub(super) fn decide(seen: &VolumeSeen) -> Step<Action, Why> {
    let this = &*seen.volume;
    if untidy(this) {
        return Step::Do(Action::Tidy);
    }
    let reserved_by_uid =
        volume::claim_ref(this).is_some_and(|reference| !reference.uid.as_deref().unwrap_or("").is_empty());
    if !reserved_by_uid {
        return phase(this, volume::AVAILABLE, Action::MarkAvailable);
    }
    let Some(claim) = &seen.claim else { return released(this) };
    match volume::claim_volume(claim) {
        "" if volume::claim_mode(claim) != volume::volume_mode(this) => {
            let (volume, claim) = (this.name().to_owned(), claim.name().to_owned());
            Step::Wait(Why::ModeMismatch { volume, claim })
        }
        "" => Step::Wait(Why::ClaimUnbound),
        name if name == this.name() => {
            phase(this, volume::BOUND, Action::MarkBound { volume: name.to_owned() })
        }
        // It was made for this claim, which took another one: whatever is on it is nobody else's to see.
        _ if this.annotation(keys::PROVISIONED_BY).is_some()
            && volume::reclaim_policy(this) == volume::DELETE =>
        {
            released(this)
        }
        _ => Step::Do(Action::Unbind),
    }
}

/// Whether `migrated-to` or the controller's own finalizer is out of date. No plugin of ours deletes volumes, so the
/// finalizer only ever has to go: where CSI took over, and where nothing is to be deleted.
fn untidy(this: &PersistentVolume) -> bool {
    let made_by = this.annotation(keys::PROVISIONED_BY);
    let migrated = made_by.is_some_and(|plugin| keys::migrated_driver(plugin).is_some());
    let unguarded = migrated || volume::reclaim_policy(this) != volume::DELETE;
    migration_due(made_by, this.annotation(keys::MIGRATED_TO)).is_some()
        || (unguarded && this.has_finalizer(keys::PV_CONTROLLER_FINALIZER))
}

fn phase(this: &PersistentVolume, wanted: &str, action: Action) -> Step<Action, Why> {
    if volume::volume_phase(this) == wanted { Step::Done } else { Step::Do(action) }
}

/// The claim is gone. PROV-3: whatever the policy, nothing here deletes.
fn released(this: &PersistentVolume) -> Step<Action, Why> {
    let failed = volume::volume_phase(this) == volume::FAILED;
    if !failed && volume::volume_phase(this) != volume::RELEASED {
        return Step::Do(Action::MarkReleased);
    }
    match reclaim_failure(this) {
        None => Step::Done,
        Some(failure) if failed => Step::Wait(Why::Failed(failure)),
        Some(failure) => Step::Do(Action::MarkFailed(failure)),
    }
}

/// Why nobody will ever reclaim this volume; `None` when its provisioner does, or when it is to stay.
fn reclaim_failure(this: &PersistentVolume) -> Option<Failure> {
    if this.annotation(keys::MIGRATED_TO).is_some() {
        return None;
    }
    let made_by = this.annotation(keys::PROVISIONED_BY).filter(|plugin| !plugin.is_empty());
    match (volume::reclaim_policy(this), made_by) {
        (volume::RETAIN, _) => None,
        (volume::DELETE, Some(plugin)) if plugin.starts_with(keys::NATIVE_PREFIX) => {
            Some(Failure::NoPlugin(plugin.into()))
        }
        (volume::DELETE, Some(_)) => None,
        (volume::DELETE, None) if volume::csi(this).is_some() => None,
        (volume::DELETE, None) => Some(Failure::NoDeleter(this.name().into())),
        (volume::RECYCLE, _) => Some(Failure::NoRecycler),
        _ => Some(Failure::UnknownPolicy),
    }
}
