//! Caches and memory → what the decision needs.

use bowline_api::expansion::modify_target;
use bowline_api::{ObjectKey, volume};

use super::model::Observed;
use super::role::Modifier;

impl Modifier {
    pub(super) fn see(&self, key: &ObjectKey) -> Option<Observed> {
        let claim = self.claims.get(key)?;
        let now = self.ports.host.uptime.uptime();
        Some(Observed {
            settings: self.settings.clone(),
            volume: self.volumes.named(volume::claim_volume(&claim)),
            wanted: self.classes.named(volume::claim_attributes_class(&claim)),
            target: self.classes.named(modify_target(&claim)),
            attempt: self.memory.claim(&claim).attempt(now),
            claim,
        })
    }
}
