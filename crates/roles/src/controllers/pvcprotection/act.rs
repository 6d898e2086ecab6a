//! One write: the claim with or without the finalizer, unless it changed since.

use bowline_api::{Meta, PersistentVolumeClaim, keys};
use bowline_machinery::EffectError;
use bowline_machinery::effect::Part;

use super::model::{Action, Observed};
use super::role::Protection;

impl Protection {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        self.effects.replace(Part::Main, &written(action, &seen.claim)).await.map(drop)
    }
}

pub(super) fn written(action: Action, claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    match action {
        Action::AddFinalizer => claim.add_finalizer(keys::PVC_PROTECTION),
        Action::RemoveFinalizer => claim.remove_finalizer(keys::PVC_PROTECTION),
    }
    claim
}
