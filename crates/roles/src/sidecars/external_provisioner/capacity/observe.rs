//! Caches and memory → what the decision needs.

use std::sync::Arc;

use bowline_api::{CSIStorageCapacity, ObjectKey};

use super::decide::segments;
use super::model::{Key, Observed, Pair, Segment};
use super::role::{BY_PAIR, CapacityPublisher, pair_text};

impl CapacityPublisher {
    pub(super) fn see(&self, key: &Key) -> Option<Observed> {
        match key {
            Key::Pair { class, segment } => {
                Some(Observed::Pair(Box::new(self.see_pair(key, class, segment))))
            }
            Key::Stray(name) => {
                let object = self.objects.get(&ObjectKey::new(&self.settings.namespace, name))?;
                self.is_ours(&object).then_some(Observed::Stray(object))
            }
            Key::Topology => Some(self.see_topology()),
        }
    }

    fn see_pair(&self, key: &Key, class: &str, segment: &Segment) -> Pair {
        let objects = self.objects.indexed(BY_PAIR, &pair_text(class, segment));
        let now = self.ports.host.uptime.uptime();
        Pair {
            settings: self.settings.clone(),
            class: self.classes.named(class),
            segment_exists: self.segments.get(segment),
            objects: objects.into_iter().filter(|object| self.is_ours(object)).collect(),
            measured: self.answers.get(key, now, self.interval),
        }
    }

    fn see_topology(&self) -> Observed {
        let now = match &self.nodes {
            Some((csi_nodes, nodes)) => segments(&self.settings.driver, &csi_nodes.list(), &nodes.list()),
            None => self.own_segment.clone().into_iter().collect(),
        };
        Observed::Topology { known: self.segments.list(), now }
    }

    /// By both labels: drivers that share a namespace leave each other's objects alone.
    pub(super) fn is_ours(&self, object: &Arc<CSIStorageCapacity>) -> bool {
        super::role::is_ours(&self.settings, object)
    }
}
