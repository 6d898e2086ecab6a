//! Caches and memory → what the decision needs.

use std::sync::Arc;

use bowline_api::{Meta, PersistentVolumeClaim, volume};

use super::decide::volume_name;
use super::model::{Claim, Cluster, Key, Observed, Volume};
use super::role::Provisioner;
use crate::indexes;

impl Provisioner {
    pub(super) fn see(&self, key: &Key) -> Option<Observed> {
        match key {
            Key::Claim(uid) => self.see_claim(uid).map(|seen| Observed::Claim(Box::new(seen))),
            Key::Volume(name) => self.see_volume(name).map(|seen| Observed::Volume(Box::new(seen))),
        }
    }

    fn see_claim(&self, uid: &str) -> Option<Claim> {
        let cached = self.claim(uid);
        let record = self.memory.claim(uid);
        // A deleted claim matters only as long as a volume may exist for it.
        let remembered = || record.claim.clone().filter(|_| record.pending());
        let object = cached.clone().or_else(remembered)?;
        let class = volume::claim_class(&object).and_then(|name| self.classes.named(name));
        let now = self.ports.host.uptime.uptime();
        Some(Claim {
            settings: self.settings.clone(),
            exists: cached.is_some(),
            volume_exists: self.volumes.named(&volume_name(&self.settings, &object)).is_some(),
            attempt: record.attempt(now, class.as_ref().map(|class| class.uid())),
            cluster: self.cluster(&object),
            class,
            object,
        })
    }

    pub(super) fn claim(&self, uid: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.indexed(indexes::CLAIMS_BY_UID, uid).into_iter().next()
    }

    /// All nodes, but only for claims that still need a place.
    fn cluster(&self, claim: &PersistentVolumeClaim) -> Cluster {
        match &self.topology {
            Some((csi_nodes, nodes)) if volume::claim_volume(claim).is_empty() => {
                Cluster { csi_nodes: csi_nodes.list(), nodes: nodes.list() }
            }
            _ => Cluster::default(),
        }
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
}
