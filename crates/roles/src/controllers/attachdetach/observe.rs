//! Caches → one volume on all its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_api::{keys, name, node, pod, volume};

use super::model::{Attachment, Key, NodeState, Observed, OnNode, Report};
use super::role::Controller;
use crate::indexes;

impl Controller {
    /// Of a shared volume, each node by itself; of any other, all its nodes together.
    pub(super) fn see(&self, key: &Key) -> Option<Observed> {
        if self.shared(&key.volume) != key.node.is_some() {
            return None;
        }
        self.see_on(&key.volume, key.node.as_deref())
    }

    /// Whether several nodes may have a volume at once.
    pub(super) fn shared(&self, key: &str) -> bool {
        let volumes = self.volumes.indexed(indexes::VOLUMES_BY_UNIQUE_NAME, key);
        volumes.iter().all(|v| volume::multi_attach(v))
    }

    /// A volume on one node, at a cost that does not grow with the number of nodes, or on all of them.
    pub(super) fn see_on(&self, key: &str, only: Option<&str>) -> Option<Observed> {
        let (driver, handle) = name::split_unique_volume(key)?;
        let volumes = self.volumes.indexed(indexes::VOLUMES_BY_UNIQUE_NAME, key);
        let mut nodes = BTreeMap::new();
        let here = |nodes: &mut BTreeMap<String, OnNode>, name: &str| {
            nodes.entry(name.to_owned()).or_insert_with(|| self.see_node(key, name));
        };
        for object in &volumes {
            if volume::attach_required(self.drivers.named(driver).as_deref()) {
                for pod in self.pods_wanting(object, only) {
                    let name = pod::node_name(&pod).to_owned();
                    here(&mut nodes, &name);
                    if let Some(on) = nodes.get_mut(&name) {
                        on.volume = object.name().to_owned();
                        on.pods.push(pod);
                    }
                }
            }
            for attachment in self.attachments_of(object, only).filter(|a| a.spec.attacher == driver) {
                let name = attachment.spec.node_name.clone();
                here(&mut nodes, &name);
                if let Some(on) = nodes.get_mut(&name) {
                    on.add_attachment(object.name(), self.see_attachment(attachment, key));
                }
            }
        }
        for attachment in self.orphans(key, only) {
            let name = attachment.spec.node_name.clone();
            here(&mut nodes, &name);
            if let Some(on) = nodes.get_mut(&name) {
                let volume = volume::attachment_volume(&attachment).unwrap_or_default().to_owned();
                on.add_attachment(&volume, self.see_attachment(attachment, key));
            }
        }
        for node in self.nodes_reporting(key, only) {
            here(&mut nodes, node.name());
        }
        for (node, on) in nodes.iter_mut().filter(|(_, on)| on.attachment.is_none()) {
            // An attachment under our name whose volume object is gone or was replaced.
            let stray = self.attachments.named(&name::attachment(handle, driver, node));
            if let Some(object) = stray {
                let volume = volume::attachment_volume(&object).unwrap_or_default().to_owned();
                on.add_attachment(&volume, self.see_attachment(object, key));
            }
        }
        nodes.iter_mut().for_each(|(node, on)| self.recall(key, node, on));
        let shared = volumes.iter().all(|v| volume::multi_attach(v));
        (!nodes.is_empty()).then(|| Observed {
            key: key.to_owned(),
            shared,
            force_after: self.force_after(),
            nodes,
        })
    }

    /// Pods that are bound to a node, have not ended, and use the claim that the volume is bound to.
    fn pods_wanting(&self, object: &PersistentVolume, only: Option<&str>) -> Vec<Arc<Pod>> {
        let claim = volume::claim_ref(object).and_then(|reference| {
            let key = ObjectKey::new(reference.namespace.clone()?, reference.name.clone()?);
            let claim = self.claims.get(&key)?;
            (reference.uid.as_deref() == Some(claim.uid())).then_some(claim)
        });
        let bound = |claim: &Arc<PersistentVolumeClaim>| {
            volume::claim_phase(claim) == "Bound" && volume::claim_volume(claim) == object.name()
        };
        let Some(claim) = claim.filter(bound) else { return Vec::new() };
        let pods = match only {
            Some(node) => self.pods.indexed(indexes::PODS_ON_NODE, node),
            None => self.pods.indexed(indexes::PODS_BY_CLAIM, &claim.key().to_string()),
        };
        let names = |p: &Arc<Pod>| {
            p.namespace() == claim.namespace() && pod::claims(p).any(|(_, name)| name == claim.name())
        };
        let wants = |p: &Arc<Pod>| {
            !pod::node_name(p).is_empty() && !pod::terminated(p) && indexes::may_use(p, &claim)
        };
        pods.into_iter().filter(|p| only.is_none() || names(p)).filter(wants).collect()
    }

    fn attachments_of<'a>(
        &self,
        object: &'a PersistentVolume,
        only: Option<&str>,
    ) -> impl Iterator<Item = Arc<VolumeAttachment>> + use<'a> {
        let found = match only {
            Some(node) => self.attachments.indexed(indexes::ATTACHMENTS_ON_NODE, node),
            None => self.attachments.indexed(indexes::ATTACHMENTS_OF_VOLUME, object.name()),
        };
        found.into_iter().filter(|a| volume::attachment_volume(a) == Some(object.name()))
    }

    /// Attachments of the volume whose object is gone.
    fn orphans(&self, key: &str, only: Option<&str>) -> Vec<Arc<VolumeAttachment>> {
        let mut kept = self.attachments.indexed(indexes::ATTACHMENTS_BY_UNIQUE_NAME, key);
        let gone = |a: &VolumeAttachment| {
            volume::attachment_volume(a).is_some_and(|name| self.volumes.named(name).is_none())
        };
        kept.retain(|a| only.is_none_or(|only| a.spec.node_name == only) && gone(a));
        kept
    }

    /// Nodes whose `volumesAttached` names the volume.
    fn nodes_reporting(&self, key: &str, only: Option<&str>) -> Vec<Arc<Node>> {
        let Some(only) = only else { return self.nodes.indexed(indexes::NODES_BY_ATTACHED_VOLUME, key) };
        let reports = |node: &Arc<Node>| node::volumes_attached(node).into_iter().any(|v| v == key);
        self.nodes.named(only).filter(reports).into_iter().collect()
    }

    fn see_attachment(&self, object: Arc<VolumeAttachment>, key: &str) -> Attachment {
        let expected = name::split_unique_volume(key)
            .map(|(driver, handle)| name::attachment(handle, driver, &object.spec.node_name));
        Attachment {
            ours: expected.as_deref() == Some(object.name()),
            deleting: object.deleting(),
            attached: volume::attached(&object),
            object,
        }
    }

    fn see_node(&self, key: &str, name: &str) -> OnNode {
        let object = self.nodes.named(name);
        let in_use = match &object {
            Some(node) => node::volumes_in_use(node).iter().any(|v| v == key),
            None => self.memory.in_use_when_gone(name, key),
        };
        OnNode {
            volume: String::new(),
            node: object.as_deref().map_or(NodeState::Gone, node_state),
            pods: Vec::new(),
            attachment: None,
            report: object.as_deref().map_or(Report::No, |node| self.reports.of(node, key)),
            in_use,
            unwanted_for: None,
            told_waiting: false,
            tell_attached: false,
            untold_error: None,
        }
    }

    /// Adds what the memory knows.
    fn recall(&self, key: &str, node: &str, on: &mut OnNode) {
        let note = self.memory.noted(key, node);
        let now = self.ports.host.uptime.uptime();
        on.unwanted_for = note.unwanted_since.map(|since| now.saturating_sub(since));
        (on.told_waiting, on.tell_attached) = (note.told_waiting, note.tell_attached);
        let error = on.attachment.as_ref().and_then(|a| attach_error(&a.object));
        on.untold_error = error.filter(|error| note.told_error.as_ref() != Some(error)).map(message_of);
    }
}

impl OnNode {
    /// Of two attachments to one node, ours counts.
    fn add_attachment(&mut self, volume: &str, attachment: Attachment) {
        if self.volume.is_empty() {
            self.volume = volume.to_owned();
        }
        if self.attachment.is_none() || attachment.ours {
            self.attachment = Some(attachment);
        }
    }
}

fn node_state(node: &Node) -> NodeState {
    if node.annotation(keys::CONTROLLER_MANAGED_ATTACH).is_none() {
        return NodeState::Unmanaged;
    }
    NodeState::Managed { ready: node::ready(node), out_of_service: node::out_of_service(node) }
}

/// The driver's last error: its time tells two tries with the same message apart.
pub(super) fn attach_error(attachment: &VolumeAttachment) -> Option<String> {
    let error = attachment.status.as_ref()?.attach_error.as_ref()?;
    let time = error.time.as_ref().map(|t| t.0.to_string()).unwrap_or_default();
    Some(format!("{time}\n{}", error.message.as_deref().unwrap_or_default()))
}

fn message_of(error: String) -> String {
    error.split_once('\n').map_or(error.clone(), |(_, message)| message.to_owned())
}
