//! Caches and memory → what the decision needs.

use std::sync::Arc;

use bowline_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use bowline_api::volume::{PENDING, claim_phase, claim_volume, csi};
use bowline_api::{Lease, Meta, ObjectKey, PersistentVolumeClaim, keys, volume};
use bowline_machinery::effect::{EffectError, Fate};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;

use super::act::NO_NAMESPACE;
use super::decide::source::{cloned_from, restored_from};
use super::decide::volume_name;
use super::intent;
use super::memory::Record;
use super::model::{Claim, Cluster, Key, Observed, Source, SourceClaim, SourceSnapshot, Volume};
use super::role::Provisioner;
use crate::indexes;

impl Provisioner {
    pub(super) async fn see(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(match key {
            Key::Claim(uid) => self.see_claim(uid).await?.map(|seen| Observed::Claim(Box::new(seen))),
            Key::Volume(name) => self.see_volume(name).map(|seen| Observed::Volume(Box::new(seen))),
            Key::Source(key) => self.see_source(key).map(|seen| Observed::Source(Box::new(seen))),
            Key::Snapshot(key) => {
                self.see_snapshot(key).await?.map(|seen| Observed::Snapshot(Box::new(seen)))
            }
            Key::Snapshots => Some(self.see_snapshots().await?),
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
            source: self.source(&object, &record).await?,
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

    /// What the claim is copied from, for calls that are still to be composed. Snapshots are read live, since few claims name
    /// one and clusters may not have the kind.
    async fn source(&self, claim: &PersistentVolumeClaim, record: &Record) -> Result<Source, EffectError> {
        if record.open || !claim_volume(claim).is_empty() {
            return Ok(Source::None);
        }
        if let Some(key) = restored_from(claim).filter(|_| self.settings.restores) {
            let (snapshot, content) = self.snapshot(&key).await?;
            let may_protect = self.memory.may_protect();
            return Ok(Source::Snapshot { snapshot, content, may_protect });
        }
        let Some(key) = cloned_from(claim) else { return Ok(Source::None) };
        let claim = self.claims.get(&key);
        let volume = claim.as_ref().and_then(|claim| self.volumes.named(claim_volume(claim)));
        Ok(Source::Claim { claim, volume })
    }

    /// A snapshot, and the content that it names.
    async fn snapshot(
        &self,
        key: &ObjectKey,
    ) -> Result<(Option<Arc<VolumeSnapshot>>, Option<Arc<VolumeSnapshotContent>>), EffectError> {
        let found = self.effects.get_live::<VolumeSnapshot>(&key.namespace, &key.name).await;
        let snapshot = found.map_err(|error| EffectError {
            message: format!("error getting snapshot {} from api server: {}", key.name, error.message),
            ..error
        })?;
        let status = snapshot.as_ref().and_then(|snapshot| snapshot.status.as_ref());
        let bound = status.and_then(|status| status.bound_volume_snapshot_content_name.as_ref());
        let content = match bound {
            Some(name) => self.effects.get_live::<VolumeSnapshotContent>("", name).await?,
            None => None,
        };
        Ok((snapshot.map(Arc::new), content.map(Arc::new)))
    }

    async fn see_snapshot(&self, key: &ObjectKey) -> Result<Option<SourceSnapshot>, EffectError> {
        let (Some(object), content) = self.snapshot(key).await? else { return Ok(None) };
        let restores = self.claims.indexed(indexes::RESTORES_OF_SNAPSHOT, &key.to_string());
        let pending = |claim: &&Arc<PersistentVolumeClaim>| matches!(claim_phase(claim), "" | PENDING);
        let pending = restores.iter().find(pending).map(|claim| claim.name().to_owned());
        Ok(Some(SourceSnapshot {
            foreign: content.is_some_and(|content| content.spec.driver != self.settings.driver),
            restore: pending.or_else(|| self.memory.restore_of(key)),
            intents_read: self.memory.intents_read(),
            object,
        }))
    }

    /// A cluster without the kind, or one that does not let this process list it, has nothing to look after.
    async fn see_snapshots(&self) -> Result<Observed, EffectError> {
        let handed_on = self.memory.handed_on();
        if handed_on {
            return Ok(Observed::Snapshots { left: Vec::new(), handed_on });
        }
        let found = match self.effects.list_live::<VolumeSnapshot>("").await {
            Err(error) if error.fate == Fate::Refused => Vec::new(),
            found => found?,
        };
        let left = found.iter().filter(|snapshot| snapshot.has_finalizer(keys::RESTORE_PROTECTION));
        Ok(Observed::Snapshots { left: left.map(|snapshot| snapshot.key()).collect(), handed_on })
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
