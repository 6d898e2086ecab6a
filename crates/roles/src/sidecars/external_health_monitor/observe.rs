//! Caches → what the decision needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, node, pod, volume};

use super::model::{Key, Node, NodeState, Observed, Volume};
use super::role::{HealthMonitor, WARNINGS_BY_CLAIM};
use crate::indexes;

/// A phase of nodes that no component sets any more.
const TERMINATED: &str = "Terminated";

impl HealthMonitor {
    pub(super) fn see(&self, key: &Key) -> Option<Observed> {
        match key {
            Key::List => Some(Observed::List { asked: self.memory.listed() }),
            Key::Volume(name) => self.see_volume(name).map(|seen| Observed::Volume(Box::new(seen))),
            Key::Node(name) => self.see_node(name).map(Observed::Node),
        }
    }

    fn see_volume(&self, name: &str) -> Option<Volume> {
        let object = self.volumes.named(name)?;
        let handle = self.handle(&object)?;
        let claim = volume::claim_ref(&object).and_then(|reference| {
            let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
            self.claims.get(&ObjectKey::new(namespace.unwrap_or_default(), name.unwrap_or_default()))
        });
        let warned = claim
            .as_ref()
            .is_some_and(|claim| !self.events.indexed(WARNINGS_BY_CLAIM, claim.uid()).is_empty());
        Some(Volume {
            checked: volume::volume_phase(&object) == volume::BOUND && !object.deleting(),
            reading: self.memory.reading(name),
            asks_each: !self.lists,
            handle,
            claim,
            warned,
            object,
        })
    }

    /// The handle of a volume of our driver.
    pub(super) fn handle(&self, object: &PersistentVolume) -> Option<String> {
        let csi = volume::csi(object).filter(|csi| csi.driver == self.driver_name)?;
        Some(csi.volume_handle.clone())
    }

    fn see_node(&self, name: &str) -> Option<Node> {
        let Some(nodes) = &self.nodes else { return None };
        let now = self.ports.host.uptime.uptime();
        let state = match nodes.named(name) {
            None if self.memory.knows(name) => NodeState::Deleted,
            None => return None,
            Some(object) if node::ready(&object) => NodeState::Ready,
            Some(object) if object.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(TERMINATED) => {
                NodeState::Terminated
            }
            Some(_) => {
                let since = self.memory.not_ready_since(name).unwrap_or(now);
                NodeState::NotReady(now.saturating_sub(since))
            }
        };
        let failed = self.memory.is_failed(name);
        Some(Node { name: name.to_owned(), state, failed, claims: self.claims_on(name) })
    }

    /// Claims of our driver's volumes that pods use there.
    fn claims_on(&self, node: &str) -> Vec<(Arc<PersistentVolumeClaim>, Vec<String>)> {
        let Some(pods) = &self.pods else { return Vec::new() };
        let mut used: BTreeMap<ObjectKey, Vec<String>> = BTreeMap::new();
        for object in pods.indexed(indexes::PODS_ON_NODE, node) {
            for (_, claim) in pod::claims(&object) {
                let key = ObjectKey::new(object.namespace(), claim);
                used.entry(key).or_default().push(object.name().to_owned());
            }
        }
        let ours = |claim: &Arc<PersistentVolumeClaim>| {
            let volume = self.volumes.named(volume::claim_volume(claim));
            volume.is_some_and(|volume| {
                volume::volume_phase(&volume) == volume::BOUND && self.handle(&volume).is_some()
            })
        };
        let claims = used.into_iter().filter_map(|(key, pods)| Some((self.claims.get(&key)?, pods)));
        claims.filter(|(claim, _)| ours(claim)).collect()
    }
}
