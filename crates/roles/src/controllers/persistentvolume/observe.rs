//! Caches, and a live read where a stale copy would do harm.

use std::sync::Arc;

use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, keys, pod, volume};
use bowline_machinery::EffectError;

use super::model::{ClaimSeen, Key, Observed, VolumeSeen};
use super::role::Binder;
use crate::indexes;

impl Binder {
    pub(super) async fn see(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(match key {
            Key::Claim(key) => self.see_claim(key).await?.map(Observed::Claim),
            Key::Volume(name) => self.see_volume(name).await?.map(Observed::Volume),
        })
    }

    async fn see_claim(&self, key: &ObjectKey) -> Result<Option<ClaimSeen>, EffectError> {
        let Some(claim) = self.claims.get(key) else { return Ok(None) };
        let named = self.named(&claim).await?;
        let class = volume::claim_class(&claim).filter(|name| !name.is_empty());
        let searching = volume::claim_volume(&claim).is_empty();
        let classes = if searching && class.is_none() { self.classes.list() } else { Vec::new() };
        let default_class = volume::default_class(classes.iter().map(AsRef::as_ref));
        Ok(Some(ClaimSeen {
            named,
            candidates: if searching { self.candidates(key, class) } else { Vec::new() },
            class: class.and_then(|name| self.classes.named(name)),
            default_class: default_class.map(|class| class.name().to_owned()),
            pods: if searching { self.unscheduled_pods(key) } else { Vec::new() },
            provisioning: self.flags.enable_dynamic_provisioning,
            claim,
        }))
    }

    /// The volume that a claim names. Before a complete claim is told that its data is lost, the API server is asked:
    /// the two caches follow two watches, and the volume's may be behind.
    async fn named(
        &self,
        claim: &PersistentVolumeClaim,
    ) -> Result<Option<Arc<PersistentVolume>>, EffectError> {
        let name = volume::claim_volume(claim);
        if name.is_empty() {
            return Ok(None);
        }
        let cached = self.volumes.named(name);
        let complete = claim.annotation(keys::BIND_COMPLETED).is_some();
        let ours = |v: &Arc<PersistentVolume>| {
            volume::claim_ref(v).is_none_or(|reference| reference.uid.as_deref() == Some(claim.uid()))
        };
        let sure = !complete || volume::claim_phase(claim) == volume::LOST;
        if sure || cached.as_ref().is_some_and(ours) {
            return Ok(cached);
        }
        Ok(self.effects.get_live("", name).await?.map(Arc::new))
    }

    fn candidates(&self, key: &ObjectKey, class: Option<&str>) -> Vec<Arc<PersistentVolume>> {
        let mut found = self.volumes.indexed(indexes::VOLUMES_BY_CLAIM, &key.to_string());
        found.extend(self.volumes.indexed(indexes::FREE_VOLUMES_BY_CLASS, class.unwrap_or_default()));
        found.retain(|volume| !self.promises.to_another(volume.name(), key));
        found
    }

    fn unscheduled_pods(&self, key: &ObjectKey) -> Vec<String> {
        let users = self.pods.indexed(indexes::PODS_BY_CLAIM, &key.to_string());
        let unscheduled = |p: &&Arc<Pod>| pod::node_name(p).is_empty() && !pod::terminated(p);
        users.iter().filter(unscheduled).map(|p| p.name().to_owned()).collect()
    }

    async fn see_volume(&self, name: &str) -> Result<Option<VolumeSeen>, EffectError> {
        let Some(volume) = self.volumes.named(name) else { return Ok(None) };
        let claim = self.claim_of(&volume).await?;
        Ok(Some(VolumeSeen { volume, claim }))
    }

    /// The claim that a volume refers to by UID. The cached claim may be older or newer than the volume, so before
    /// the volume is given up the API server is asked. A volume that was given up already costs no such read.
    async fn claim_of(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, EffectError> {
        let Some(reference) = volume::claim_ref(volume) else { return Ok(None) };
        let uid = reference.uid.as_deref().unwrap_or_default();
        if uid.is_empty() {
            return Ok(None);
        }
        let key = indexes::reference_key(reference);
        let cached = self.claims.get(&key).filter(|claim| claim.uid() == uid);
        let given_up = matches!(volume::volume_phase(volume), volume::RELEASED | volume::FAILED);
        if cached.is_some() || given_up {
            return Ok(cached);
        }
        let live: Option<PersistentVolumeClaim> = self.effects.get_live(&key.namespace, &key.name).await?;
        Ok(live.filter(|claim| claim.uid() == uid).map(Arc::new))
    }
}
