//! Caches and memory → what the decision needs.

use std::sync::Arc;

use bowline_api::{ObjectKey, PersistentVolumeClaim, Pod, pod, volume};

use super::model::Observed;
use super::role::Resizer;
use crate::indexes;

impl Resizer {
    pub(super) fn see(&self, key: &ObjectKey) -> Option<Observed> {
        let claim = self.claims.get(key)?;
        let now = self.ports.host.uptime.uptime();
        Some(Observed {
            settings: self.settings.clone(),
            volume: self.volumes.named(volume::claim_volume(&claim)),
            user: self.user(key, &claim),
            attempt: self.memory.claim(&claim).attempt(now),
            claim,
        })
    }

    /// A pod that uses the claim and has not run to its end.
    fn user(&self, key: &ObjectKey, claim: &PersistentVolumeClaim) -> Option<Arc<Pod>> {
        let Some(pods) = &self.pods else { return None };
        let pods = pods.indexed(indexes::PODS_BY_CLAIM, &key.to_string());
        pods.into_iter().find(|pod| !pod::terminated(pod) && indexes::may_use(pod, claim))
    }
}
