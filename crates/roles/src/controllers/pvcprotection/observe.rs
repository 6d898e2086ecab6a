//! The cache first, which usually knows a user; then the API server, whose word alone lets a claim go.

use bowline_api::{Meta, ObjectKey, keys};
use bowline_machinery::EffectError;

use super::decide::used_by;
use super::model::{Observed, Usage};
use super::role::Protection;
use crate::indexes;

impl Protection {
    pub(super) async fn see(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
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
        Ok(users.get(&key.name).map_or(Usage::Unused, |pod| Usage::OnlyLive(pod.clone())))
    }
}
