//! The cache first, which usually knows a user; then the API server, whose word alone lets a claim go.

use bowline_api::{Meta, ObjectKey, PersistentVolumeClaim, Pod, keys};
use bowline_machinery::{Cache, EffectError};

use super::decide::used_by;
use super::live::Live;
use super::world::{Observed, Usage};
use crate::indexes;

pub(super) struct Sight {
    pub claims: Cache<PersistentVolumeClaim>,
    pub pods: Cache<Pod>,
    pub live: Live,
}

impl Sight {
    pub async fn synced(&self) {
        self.claims.synced().await;
        self.pods.synced().await;
    }

    pub async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
        let Some(claim) = self.claims.get(key) else { return Ok(None) };
        let asked = claim.deleting() && claim.has_finalizer(keys::PVC_PROTECTION);
        let usage = if asked { self.usage(key).await? } else { Usage::Unasked };
        Ok(Some(Observed { claim, usage }))
    }

    async fn usage(&self, key: &ObjectKey) -> Result<Usage, EffectError> {
        let cached = self.pods.indexed(indexes::PODS_BY_CLAIM, &key.to_string());
        if let Some(user) = cached.iter().find(|pod| used_by(pod).contains(&key.name)) {
            return Ok(Usage::Pod(user.name().to_owned()));
        }
        let users = self.live.users(&key.namespace).await?;
        Ok(users.get(&key.name).map_or(Usage::Nobody, |pod| Usage::Pod(pod.clone())))
    }
}
