//! Promises about calls to the driver: their order, and what must be true when each begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_api::node::out_of_service;
use bowline_api::{Meta, keys, volume};
use bowline_drivers::local;
use bowline_proto::csi::v1 as csi;
use bytes::Bytes;
use prost::Message;

use super::Oracle;
use crate::line::csi::Call;

/// How long after a person took the taint away caches may still have it.
const BELIEVED: Duration = Duration::from_secs(120);

/// What the driver was asked so far.
#[derive(Default)]
pub struct Calls {
    /// Volumes with a call of a node under way, by process.
    under_way: BTreeSet<(Arc<str>, String)>,
    /// Staged volumes, by node.
    staged: BTreeSet<(String, String)>,
    /// Published targets, by volume and node.
    published: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Calls {
    /// A power cut takes all mounts.
    pub fn forget_nodes(&mut self) {
        self.staged.clear();
        self.published.clear();
    }
}

fn read<M: Message + Default>(bytes: &Bytes) -> M {
    M::decode(bytes.clone()).unwrap_or_default()
}

/// The node of a path below a kubelet's directory.
fn node_of(path: &str) -> String {
    path.strip_prefix(super::NODES_DIR).and_then(|rest| rest.split('/').nth(1)).unwrap_or_default().to_owned()
}

impl Oracle {
    /// A call reaches the driver.
    pub fn begun(&mut self, call: &Call) {
        self.look();
        match call.rpc.as_str() {
            "ControllerPublishVolume" => {
                let asked: csi::ControllerPublishVolumeRequest = read(&call.request);
                self.att_1_publish(&asked);
                self.att_2_publish(&asked);
            }
            "ControllerUnpublishVolume" => {
                let asked: csi::ControllerUnpublishVolumeRequest = read(&call.request);
                self.att_3(&asked);
            }
            "CreateVolume" => {
                let asked: csi::CreateVolumeRequest = read(&call.request);
                self.prov_1_asked(&asked.name);
            }
            "DeleteVolume" => {
                let asked: csi::DeleteVolumeRequest = read(&call.request);
                self.deletes(&asked.volume_id);
            }
            "NodeStageVolume" => {
                let asked: csi::NodeStageVolumeRequest = read(&call.request);
                self.att_3_stage(&asked.volume_id, &node_of(&asked.staging_target_path));
            }
            "NodeUnpublishVolume" => {
                let asked: csi::NodeUnpublishVolumeRequest = read(&call.request);
                self.node_3_unpublish(&asked.target_path);
            }
            "NodeUnstageVolume" => {
                let asked: csi::NodeUnstageVolumeRequest = read(&call.request);
                let key = (asked.volume_id.clone(), node_of(&asked.staging_target_path));
                if let Some(left) = self.calls.published.get(&key).filter(|left| !left.is_empty()) {
                    let text =
                        format!("NODE-1: {} is unstaged on {} while published at {left:?}", key.0, key.1);
                    self.broken(text);
                }
            }
            "NodePublishVolume" => {
                let asked: csi::NodePublishVolumeRequest = read(&call.request);
                let key = (asked.volume_id.clone(), node_of(&asked.target_path));
                if !self.calls.staged.contains(&key) {
                    self.broken(format!("NODE-1: {} is published on {} before it was staged", key.0, key.1));
                }
                self.att_2_pod(&key, &asked.target_path);
            }
            _ => {}
        }
        if let Some(volume) = node_call(call)
            && !self.calls.under_way.insert((call.process.clone(), volume.clone()))
        {
            self.broken(format!("NODE-1: {} makes two calls for {volume} at once", call.process));
        }
    }

    /// The driver has answered; without a code it is not known what it did.
    pub fn ended(&mut self, call: &Call, code: Option<i32>, answer: Bytes) {
        if let Some(volume) = node_call(call) {
            self.calls.under_way.remove(&(call.process.clone(), volume));
        }
        let (done, maybe) = (code == Some(0), code.is_none());
        match call.rpc.as_str() {
            "CreateVolume" if done => {
                let (asked, made): (csi::CreateVolumeRequest, csi::CreateVolumeResponse) =
                    (read(&call.request), read(&answer));
                self.prov_1_made(&asked.name, made.volume.map(|made| made.volume_id).unwrap_or_default());
            }
            "NodeStageVolume" if done || maybe => {
                let asked: csi::NodeStageVolumeRequest = read(&call.request);
                self.calls.staged.insert((asked.volume_id.clone(), node_of(&asked.staging_target_path)));
                self.att_2_mounts(&asked.volume_id);
            }
            "NodeUnstageVolume" if done => {
                let asked: csi::NodeUnstageVolumeRequest = read(&call.request);
                self.calls.staged.remove(&(asked.volume_id, node_of(&asked.staging_target_path)));
            }
            "NodePublishVolume" if done => {
                let asked: csi::NodePublishVolumeRequest = read(&call.request);
                let key = (asked.volume_id.clone(), node_of(&asked.target_path));
                self.calls.published.entry(key).or_default().insert(asked.target_path);
                self.att_2_mounts(&asked.volume_id);
            }
            "NodeUnpublishVolume" if done || maybe => {
                let asked: csi::NodeUnpublishVolumeRequest = read(&call.request);
                let key = (asked.volume_id, node_of(&asked.target_path));
                self.calls.published.entry(key).or_default().remove(&asked.target_path);
            }
            _ => {}
        }
        self.node_3();
    }

    /// The finalizer comes before ControllerPublish.
    fn att_1_publish(&mut self, asked: &csi::ControllerPublishVolumeRequest) {
        let Some(found) = self.volume_of(&asked.volume_id) else { return };
        let name = found.name().to_owned();
        let guarded = self.attachments.values().any(|attachment| {
            volume::attachment_volume(attachment) == Some(&name)
                && attachment.spec.node_name == asked.node_id
                && attachment.has_finalizer(&keys::attacher_finalizer(&attachment.spec.attacher))
        });
        if !guarded {
            self.broken(format!("ATT-1: {name} is published to {} without a finalizer", asked.node_id));
        }
    }

    /// A volume for one node is not even asked for on a second one before the first has let go.
    fn att_2_publish(&mut self, asked: &csi::ControllerPublishVolumeRequest) {
        let single = self.volume_of(&asked.volume_id).is_some_and(|found| !volume::multi_attach(found));
        let mut others = self.published_nodes(&asked.volume_id);
        others.remove(&asked.node_id);
        if single && !others.is_empty() {
            let text =
                format!("ATT-2: {} is published to {}, {others:?} has it", asked.volume_id, asked.node_id);
            self.broken(text);
        }
    }

    /// No detach while the node has it mounted, or is about to, unless a person has said that it is out of service.
    fn att_3(&mut self, asked: &csi::ControllerUnpublishVolumeRequest) {
        let still = self.nodes.get(&asked.node_id).is_some_and(|node| out_of_service(node));
        let said = self.out_of_service.get(&asked.node_id);
        if still || said.is_some_and(|said| said.elapsed() < BELIEVED) {
            return;
        }
        let busy = |(process, volume): &(Arc<str>, String)| {
            *volume == asked.volume_id && kubelet_node(process).is_some_and(|node| node == asked.node_id)
        };
        if self.calls.under_way.iter().any(busy) {
            self.broken(format!(
                "ATT-3: {} is detached from {}, which makes a call for it",
                asked.volume_id, asked.node_id
            ));
        }
        if self.mounted_nodes(&asked.volume_id).contains(&asked.node_id) {
            self.broken(format!(
                "ATT-3: {} is detached from {}, which has it mounted",
                asked.volume_id, asked.node_id
            ));
        }
    }

    /// A node mounts only what is attached to it and what it has said to have in use: without that, a detach cannot know.
    fn att_3_stage(&mut self, handle: &str, node: &str) {
        let Some(name) = self.volume_of(handle).map(|found| found.name().to_owned()) else { return };
        let here = |attachment: &&Arc<bowline_api::VolumeAttachment>| {
            volume::attachment_volume(attachment) == Some(&name) && attachment.spec.node_name == node
        };
        if !self.attachments.values().filter(here).any(|attachment| volume::attached(attachment)) {
            self.broken(format!("ATT-3: {name} is staged on {node} without an attachment"));
        }
        // A node whose object a person deleted has to be registered first.
        let Some(object) = self.nodes.get(node).filter(|_| !self.nodes_deleted.contains(node)) else {
            return;
        };
        let unique = bowline_api::name::unique_volume(local::NAME, handle);
        if !bowline_api::node::volumes_in_use(object).contains(&unique) {
            self.broken(format!("ATT-3: {name} is staged on {node} and not in use there"));
        }
    }

    /// A volume for one pod has one publication.
    fn att_2_pod(&mut self, (handle, node): &(String, String), target: &str) {
        let only = [volume::READ_WRITE_ONCE_POD];
        let single = self.volume_of(handle).is_some_and(|found| volume::volume_access_modes(found) == only);
        let others = self.calls.published.iter().filter(|((volume, _), _)| volume == handle);
        let others: Vec<&String> =
            others.flat_map(|(_, targets)| targets).filter(|other| *other != target).collect();
        if single && !others.is_empty() {
            let text =
                format!("ATT-2: {handle}, which is for one pod, is published on {node} beside {others:?}");
            self.broken(text);
        }
    }

    /// A volume for one node is mounted on one node.
    fn att_2_mounts(&mut self, handle: &str) {
        let single = self.volume_of(handle).is_some_and(|found| !volume::multi_attach(found));
        let nodes = self.mounted_nodes(handle);
        if single && nodes.len() > 1 {
            self.broken(format!("ATT-2: {handle} is mounted on {nodes:?}"));
        }
    }

    /// The machine of all nodes has lost power.
    pub fn power_cut(&mut self) {
        self.calls.forget_nodes();
        let alive = self.pods.values().map(|pod| pod.uid().to_owned());
        self.struck_down.extend(alive);
    }

    /// One node has lost power.
    pub fn node_lost(&mut self, node: &str) {
        self.calls.staged.retain(|(_, on)| on != node);
        self.calls.published.retain(|(_, on), _| on != node);
        let lost = self.pods.values().filter(|pod| bowline_api::pod::node_name(pod) == node);
        self.struck_down.extend(lost.map(|pod| pod.uid().to_owned()));
    }

    /// Whether any node has staged the volume of an image.
    pub fn is_staged(&self, image: &std::path::Path) -> bool {
        let is = |name: &std::ffi::OsStr| self.calls.staged.iter().any(|(volume, _)| name == volume.as_str());
        image.iter().any(is)
    }

    /// A process has died: what it waited for is no longer waited for.
    pub fn died(&mut self, process: &str) {
        self.calls.under_way.retain(|(caller, _)| &**caller != process);
    }
}

/// The node whose kubelet a process is.
pub(super) fn kubelet_node(process: &str) -> Option<String> {
    let (number, _) = process.strip_prefix("kubelet-")?.split_once('.')?;
    Some(crate::cluster::node_name(number.parse().ok()?))
}

/// The volume of a call that changes a node.
fn node_call(call: &Call) -> Option<String> {
    let volume = match call.rpc.as_str() {
        "NodeStageVolume" => read::<csi::NodeStageVolumeRequest>(&call.request).volume_id,
        "NodeUnstageVolume" => read::<csi::NodeUnstageVolumeRequest>(&call.request).volume_id,
        "NodePublishVolume" => read::<csi::NodePublishVolumeRequest>(&call.request).volume_id,
        "NodeUnpublishVolume" => read::<csi::NodeUnpublishVolumeRequest>(&call.request).volume_id,
        _ => return None,
    };
    Some(volume)
}
