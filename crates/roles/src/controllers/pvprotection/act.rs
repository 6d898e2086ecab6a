//! One write: the volume with or without the finalizer, unless it changed since.

use bowline_api::{Meta, PersistentVolume, keys};
use bowline_machinery::EffectError;
use bowline_machinery::effect::Part;

use super::model::{Action, Observed};
use super::role::Protection;

impl Protection {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        self.effects.replace(Part::Main, &written(action, &seen.volume)).await.map(drop)
    }
}

pub(super) fn written(action: Action, volume: &PersistentVolume) -> PersistentVolume {
    let mut volume = volume.clone();
    match action {
        Action::AddFinalizer => volume.add_finalizer(keys::PV_PROTECTION),
        Action::RemoveFinalizer => volume.remove_finalizer(keys::PV_PROTECTION),
    }
    volume
}
