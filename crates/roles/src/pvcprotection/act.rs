//! One write: the claim with or without the finalizer, unless it changed since.

use bowline_api::{Meta, PersistentVolumeClaim, keys};
use bowline_machinery::effect::Part;
use bowline_machinery::{EffectError, Effects};

use super::world::{Action, Observed};

pub(super) async fn act(effects: &Effects, action: Action, seen: &Observed) -> Result<(), EffectError> {
    effects.replace(Part::Main, &written(action, &seen.claim)).await.map(drop)
}

pub(super) fn written(action: Action, claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    match action {
        Action::AddFinalizer => claim.add_finalizer(keys::PVC_PROTECTION),
        Action::RemoveFinalizer => claim.remove_finalizer(keys::PVC_PROTECTION),
    }
    claim
}
