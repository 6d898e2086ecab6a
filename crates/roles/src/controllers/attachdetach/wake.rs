//! Which volumes a change concerns. Each change wakes few keys, however many volumes there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_api::{CSIDriver, Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod};
use bowline_api::{VolumeAttachment, keys, node, pod, volume};
use bowline_machinery::{Change, Queue};

use super::model::Key;
use super::role::Controller;
use crate::indexes;

type Wake = Queue<Key>;

impl Controller {
    pub(super) fn pod_changed(&self, change: &Change<Pod>, queue: &Wake) {
        let matters = |pod: &Arc<Pod>| (pod::node_name(pod).to_owned(), pod::terminated(pod));
        if change.old.as_ref().map(matters) != change.new.as_ref().map(matters) {
            change.sides().for_each(|pod| self.wake_pod(pod, queue));
        }
    }

    /// What a pod wants, on the node that it is bound to.
    fn wake_pod(&self, pod: &Pod, queue: &Wake) {
        let node = Some(pod::node_name(pod)).filter(|node| !node.is_empty());
        for (_, claim) in pod::claims(pod) {
            if let Some(claim) = self.claims.get(&ObjectKey::new(pod.namespace(), claim)) {
                self.wake_volume(volume::claim_volume(&claim), node, queue);
            }
        }
    }

    pub(super) fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Wake) {
        change.sides().for_each(|claim| self.wake_volume(volume::claim_volume(claim), None, queue));
    }

    pub(super) fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Wake) {
        let keys = change.sides().filter_map(|object| volume::unique_name(object));
        keys.for_each(|key| self.wake(key, None, queue));
    }

    pub(super) fn attachment_changed(&self, change: &Change<VolumeAttachment>, queue: &Wake) {
        self.measure(change);
        let Some(attachment) = change.latest() else { return };
        let node = &attachment.spec.node_name;
        self.wake_attachment(attachment, queue);
        if change.new.is_none() && self.attachments.indexed_len(indexes::ATTACHMENTS_ON_NODE, node) == 0 {
            self.memory.forget_departed(node);
        }
    }

    /// One whose volume object is gone keeps the name of the volume itself.
    fn wake_attachment(&self, attachment: &VolumeAttachment, queue: &Wake) {
        let node = Some(attachment.spec.node_name.as_str());
        let object = volume::attachment_volume(attachment).and_then(|name| self.volumes.named(name));
        let name = object.and_then(|object| volume::unique_name(&object));
        if let Some(volume) = name.or_else(|| indexes::kept_name(attachment)) {
            self.wake(volume, node, queue);
        }
    }

    /// A new list concerns the volumes that came or went; a new condition, taint or annotation concerns all.
    pub(super) fn node_changed(&self, change: &Change<Node>, queue: &Wake) {
        match (&change.old, &change.new) {
            (Some(old), None) => {
                self.reports.forget(old.name());
                // Without an attachment there is nothing that its last words could keep.
                if self.attachments.indexed_len(indexes::ATTACHMENTS_ON_NODE, old.name()) > 0 {
                    self.memory.departed(old.name(), node::volumes_in_use(old));
                }
            }
            (_, Some(new)) => self.memory.forget_departed(new.name()),
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
        let Some(latest) = change.latest() else { return };
        let here = Some(latest.name());
        for volume in before.symmetric_difference(&now) {
            self.wake(volume.strip_prefix("in use ").unwrap_or(volume).to_owned(), here, queue);
        }
        let state = |node: &Arc<Node>| {
            let managed = node.annotation(keys::CONTROLLER_MANAGED_ATTACH).is_some();
            (managed, node::ready(node), node::out_of_service(node))
        };
        if change.old.as_ref().map(state) != change.new.as_ref().map(state) {
            let attachments = self.attachments.indexed(indexes::ATTACHMENTS_ON_NODE, latest.name());
            attachments.iter().for_each(|attachment| self.wake_attachment(attachment, queue));
            let pods = self.pods.indexed(indexes::PODS_ON_NODE, latest.name());
            pods.iter().for_each(|pod| self.wake_pod(pod, queue));
        }
    }

    pub(super) fn driver_changed(&self, change: &Change<CSIDriver>, queue: &Wake) {
        let Some(driver) = change.latest() else { return };
        let volumes = self.volumes.indexed(indexes::VOLUMES_OF_DRIVER, driver.name());
        let keys = volumes.iter().filter_map(|object| volume::unique_name(object));
        keys.for_each(|key| self.wake(key, None, queue));
    }

    /// An unknown name is no loss: when the volume appears, it wakes itself.
    fn wake_volume(&self, name: &str, node: Option<&str>, queue: &Wake) {
        if let Some(key) = self.volumes.named(name).and_then(|object| volume::unique_name(&object)) {
            self.wake(key, node, queue);
        }
    }

    /// The nodes of a shared volume do not wait for each other: only the one that is concerned is looked at, or each of
    /// them when the change concerns all.
    fn wake(&self, volume: String, node: Option<&str>, queue: &Wake) {
        if !self.shared(&volume) {
            return queue.add(Key { volume, node: None });
        }
        if let Some(node) = node {
            return queue.add(Key { volume, node: Some(node.to_owned()) });
        }
        let nodes = self.see_on(&volume, None).map(|seen| seen.nodes).unwrap_or_default();
        nodes.into_keys().for_each(|node| queue.add(Key { volume: volume.clone(), node: Some(node) }));
    }
}
