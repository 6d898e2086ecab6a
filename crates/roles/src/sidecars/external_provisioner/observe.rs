//! Caches and memory → what the decision needs.

use std::sync::Arc;

use bowline_api::volume::{PENDING, claim_phase, claim_volume, csi};
use bowline_api::{Lease, Meta, ObjectKey, PersistentVolumeClaim, volume};
use bowline_machinery::effect::EffectError;
use k8s_openapi::api::storage::v1::VolumeAttributesClass;

use super::act::NO_NAMESPACE;
use super::decide::source::cloned_from;
use super::decide::volume_name;
use super::intent;
use super::memory::Record;
use super::model::{Claim, Cluster, Key, Observed, Source, SourceClaim, Volume};
use super::role::Provisioner;
use crate::indexes;

impl Provisioner {
    pub(super) async fn see(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(match key {
            Key::Claim(uid) => self.see_claim(uid).await?.map(|seen| Observed::Claim(Box::new(seen))),
            Key::Volume(name) => self.see_volume(name).map(|seen| Observed::Volume(Box::new(seen))),
            Key::Source(key) => self.see_source(key).map(|seen| Observed::Source(Box::new(seen))),
            Key::Intents => Some(self.see_intents().await?),
        })
    }

    async fn see_claim(&self, uid: &str) -> Result<Option<Claim>, EffectError> {
        let cached = self.claim(uid);
        let record = self.memory.claim(uid);
        // A deleted claim matters only as long as a volume may exist for it.
        let remembered = || record.stored.as_ref().map(|stored| stored.intent.claim.clone());
        let Some(object) = cached.clone().or_else(remembered) else { return Ok(None) };
        let class = volume::claim_class(&object).and_then(|name| self.classes.named(name));
        let now = self.ports.host.uptime.uptime();
        Ok(Some(Claim {
            settings: self.settings.clone(),
            exists: cached.is_some(),
            volume_exists: self.volumes.named(&self.name_of(&object, &record)).is_some(),
            attributes: self.attributes(&object, &record).await?,
            source: self.source(&object, &record),
            attempt: record.attempt(now, class.as_ref().map(|class| class.uid())),
            cluster: self.cluster(&object),
            class,
            object,
        }))
    }

    /// The name that was sent, or the one that will be: flags may have changed since.
    fn name_of(&self, claim: &PersistentVolumeClaim, record: &Record) -> String {
        match &record.stored {
            Some(stored) => stored.intent.creation.request.name.clone(),
            None => volume_name(&self.settings.naming, claim),
        }
    }

    pub(super) fn claim(&self, uid: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.indexed(indexes::CLAIMS_BY_UID, uid).into_iter().next()
    }

    /// All nodes, but only for claims that still need a place.
    fn cluster(&self, claim: &PersistentVolumeClaim) -> Cluster {
        match (&self.settings.node, &self.topology) {
            (Some(_), _) => self.own_cluster.clone(),
            (None, Some((csi_nodes, nodes))) if volume::claim_volume(claim).is_empty() => {
                Cluster { csi_nodes: csi_nodes.list(), nodes: nodes.list() }
            }
            _ => Cluster::default(),
        }
    }

    /// Read live, since claims rarely name one, and only for calls that are still to be composed.
    async fn attributes(
        &self,
        claim: &PersistentVolumeClaim,
        record: &Record,
    ) -> Result<Option<VolumeAttributesClass>, EffectError> {
        let name = volume::claim_attributes_class(claim);
        let composed = record.open || !volume::claim_volume(claim).is_empty();
        if name.is_empty() || composed || !self.settings.modifies {
            return Ok(None);
        }
        self.effects.get_live("", name).await
    }

    /// What the claim is cloned from, for calls that are still to be composed.
    fn source(&self, claim: &PersistentVolumeClaim, record: &Record) -> Source {
        let composed = record.open || !claim_volume(claim).is_empty();
        let Some(key) = cloned_from(claim).filter(|_| !composed) else { return Source::None };
        let claim = self.claims.get(&key);
        let volume = claim.as_ref().and_then(|claim| self.volumes.named(claim_volume(claim)));
        Source::Claim { claim, volume }
    }

    fn see_source(&self, key: &ObjectKey) -> Option<SourceClaim> {
        let object = self.claims.get(key)?;
        let clones = self.claims.indexed(indexes::CLONES_OF_CLAIM, &key.to_string());
        let pending = |claim: &&Arc<PersistentVolumeClaim>| matches!(claim_phase(claim), "" | PENDING);
        let pending = clones.iter().find(pending).map(|claim| claim.name().to_owned());
        let volume = self.volumes.named(claim_volume(&object));
        let driver = volume.as_ref().and_then(|volume| csi(volume)).map(|csi| csi.driver.as_str());
        Some(SourceClaim {
            foreign: driver.is_some_and(|driver| driver != self.settings.driver),
            clone: pending.or_else(|| self.memory.clone_of(key)),
            intents_read: self.memory.intents_read(),
            object,
        })
    }

    fn see_volume(&self, name: &str) -> Option<Volume> {
        let object = self.volumes.named(name)?;
        let attachments = self.attachments.indexed(indexes::ATTACHMENTS_OF_VOLUME, name);
        Some(Volume {
            settings: self.settings.clone(),
            class: self.classes.named(volume::volume_class(&object)),
            attached_to: attachments.first().map(|a| a.spec.node_name.clone()),
            deleted: self.memory.deleted(&object),
            object,
        })
    }

    /// What other processes stored and this one does not know yet.
    async fn see_intents(&self) -> Result<Observed, EffectError> {
        if self.namespace.is_empty() {
            return Ok(Observed::Unstorable(NO_NAMESPACE.to_owned()));
        }
        let selector = intent::selector(&self.settings);
        let leases = match self.effects.list_labelled::<Lease>(&self.namespace, &selector).await {
            Ok(leases) => leases,
            Err(error) if error.forbidden() => return Ok(Observed::Unstorable(error.message)),
            Err(error) => return Err(error),
        };
        let others = leases.into_iter().filter(|lease| !intent::is_own(&self.settings, lease));
        let unknown = others.filter_map(|lease| {
            let name = lease.name().to_owned();
            let read = intent::stored(&self.settings, lease).inspect_err(|error| {
                tracing::error!(
                    lease = name,
                    namespace = self.namespace,
                    error,
                    "cannot read a stored CreateVolume; the volume of this claim may be left in the backend, delete the Lease when it is not"
                );
            });
            read.ok().filter(|stored| self.memory.claim(stored.intent.claim.uid()).stored.is_none())
        });
        Ok(Observed::Intents(unknown.collect()))
    }
}
