//! Which volumes a change concerns. Each change wakes few keys, however many volumes there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_api::{CSIDriver, Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod};
use bowline_api::{VolumeAttachment, keys, node, pod, volume};
use bowline_machinery::Change;

use super::run::Controller;
use super::world::Key;
use crate::indexes;

impl Controller {
    pub(super) fn watch(self: &Arc<Self>) {
        indexes::attachments(&self.attachments);
        indexes::volumes(&self.volumes);
        indexes::pods(&self.pods);
        indexes::nodes(&self.nodes);
        let role = self.clone();
        self.pods.on_change(move |change| role.pod_changed(change));
        let role = self.clone();
        self.claims.on_change(move |change| role.claim_changed(change));
        let role = self.clone();
        self.volumes.on_change(move |change| role.volume_changed(change));
        let role = self.clone();
        self.attachments.on_change(move |change| role.attachment_changed(change));
        let role = self.clone();
        self.nodes.on_change(move |change| role.node_changed(change));
        let role = self.clone();
        self.drivers.on_change(move |change| role.driver_changed(change));
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let matters = |pod: &Arc<Pod>| (pod::node_name(pod).to_owned(), pod::terminated(pod));
        if change.old.as_ref().map(matters) != change.new.as_ref().map(matters) {
            change.sides().for_each(|pod| self.wake_pod(pod));
        }
    }

    fn wake_pod(&self, pod: &Pod) {
        for (_, claim) in pod::claims(pod) {
            if let Some(claim) = self.claims.get(&ObjectKey::new(pod.namespace(), claim)) {
                self.wake_volume(volume::claim_volume(&claim));
            }
        }
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>) {
        change.sides().for_each(|claim| self.wake_volume(volume::claim_volume(claim)));
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>) {
        change.sides().filter_map(|object| volume::unique_name(object)).for_each(|key| self.wake(key));
    }

    fn attachment_changed(&self, change: &Change<VolumeAttachment>) {
        if let Some(volume) = change.latest().and_then(|a| volume::attachment_volume(a)) {
            self.wake_volume(volume);
        }
    }

    /// A new list concerns the volumes that came or went; a new condition, taint or annotation concerns all.
    fn node_changed(&self, change: &Change<Node>) {
        match (&change.old, &change.new) {
            (Some(old), None) => self.memory.departed(old.name(), node::volumes_in_use(old)),
            (_, Some(new)) => self.memory.arrived(new.name()),
            (None, None) => {}
        }
        let listed = |node: &Arc<Node>| -> BTreeSet<String> {
            let in_use = node::volumes_in_use(node).iter().cloned();
            in_use
                .map(|v| format!("in use {v}"))
                .chain(node::volumes_attached(node).into_iter().map(String::from))
                .collect()
        };
        let before = change.old.as_ref().map(listed).unwrap_or_default();
        let now = change.new.as_ref().map(listed).unwrap_or_default();
        for volume in before.symmetric_difference(&now) {
            self.wake(volume.strip_prefix("in use ").unwrap_or(volume).to_owned());
        }
        let state = |node: &Arc<Node>| {
            let managed = node.annotation(keys::CONTROLLER_MANAGED_ATTACH).is_some();
            (managed, node::ready(node), node::out_of_service(node))
        };
        if let (Some(latest), true) =
            (change.latest(), change.old.as_ref().map(state) != change.new.as_ref().map(state))
        {
            let attachments = self.attachments.indexed(indexes::ATTACHMENTS_ON_NODE, latest.name());
            attachments.iter().filter_map(|a| volume::attachment_volume(a)).for_each(|v| self.wake_volume(v));
            self.pods.indexed(indexes::PODS_ON_NODE, latest.name()).iter().for_each(|pod| self.wake_pod(pod));
        }
    }

    fn driver_changed(&self, change: &Change<CSIDriver>) {
        let Some(driver) = change.latest() else { return };
        let volumes = self.volumes.indexed(indexes::VOLUMES_OF_DRIVER, driver.name());
        volumes.iter().filter_map(|object| volume::unique_name(object)).for_each(|key| self.wake(key));
    }

    /// An unknown name is no loss: when the volume appears, it wakes itself.
    fn wake_volume(&self, name: &str) {
        if let Some(key) = self.volumes.named(name).and_then(|object| volume::unique_name(&object)) {
            self.wake(key);
        }
    }

    fn wake(&self, volume: String) {
        self.queue.add(Key { volume, node: None });
    }
}
