//! One write: the claim with or without the finalizer, unless it changed since; or a word to the cache.

use bowline_api::{Meta, PersistentVolumeClaim, keys};
use bowline_machinery::EffectError;
use bowline_machinery::effect::Part;

use super::model::{Action, Observed};
use super::role::Protection;

impl Protection {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        let claim = match action {
            Action::AddFinalizer => guarded(&seen.claim),
            Action::RemoveFinalizer => unguarded(&seen.claim),
            Action::TakeIn(user) => {
                self.pods.note((*user).clone());
                return Ok(());
            }
        };
        self.effects.replace(Part::Main, &claim).await.map(drop)
    }
}

fn guarded(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim.add_finalizer(keys::PVC_PROTECTION);
    claim
}

pub(super) fn unguarded(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim.remove_finalizer(keys::PVC_PROTECTION);
    claim
}
