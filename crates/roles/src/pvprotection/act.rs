//! One write: the volume with or without the finalizer, unless it changed since.

use bowline_api::{Meta, PersistentVolume, keys};
use bowline_machinery::effect::Part;
use bowline_machinery::{EffectError, Effects};

use super::world::{Action, Observed};

pub(super) async fn act(effects: &Effects, action: Action, seen: &Observed) -> Result<(), EffectError> {
    effects.replace(Part::Main, &written(action, &seen.volume)).await.map(drop)
}

pub(super) fn written(action: Action, volume: &PersistentVolume) -> PersistentVolume {
    let mut volume = volume.clone();
    match action {
        Action::AddFinalizer => volume.add_finalizer(keys::PV_PROTECTION),
        Action::RemoveFinalizer => volume.remove_finalizer(keys::PV_PROTECTION),
    }
    volume
}
