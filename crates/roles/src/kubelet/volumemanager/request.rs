//! The requests of the calls to a node's driver (reference kube-core.md 4.7, 4.8, 4.11, 6.4).

use std::collections::BTreeMap;
use std::path::Path;

use bowline_api::{CSIDriver, Meta, PersistentVolume, Pod, keys, volume};
use bowline_machinery::capability::{self, SingleNode};
use bowline_proto::csi::v1::{
    CapacityRange, NodeExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    VolumeCapability,
};
use k8s_openapi::api::core::v1::CSIPersistentVolumeSource;

use crate::kubelet::pluginmanager::Capabilities;

type Strings = BTreeMap<String, String>;

/// Everything about a volume that both requests carry.
pub struct Source<'a> {
    pub pv: &'a PersistentVolume,
    pub csi: &'a CSIPersistentVolumeSource,
    pub context: Strings,
    pub secrets: Strings,
    pub able: Capabilities,
    /// The pod's, whose first use stages the volume.
    pub fs_group: Option<u32>,
}

/// What a driver may be told of the pod that a volume is published to.
pub struct About<'a> {
    pub pod: &'a Pod,
    pub driver: Option<&'a CSIDriver>,
    pub ephemeral: bool,
    /// Tokens of the pod's account by audience, as JSON.
    pub tokens: Option<String>,
}

impl Source<'_> {
    pub fn stage(self, path: &Path) -> Result<NodeStageVolumeRequest, String> {
        Ok(NodeStageVolumeRequest {
            volume_id: self.csi.volume_handle.clone(),
            publish_context: self.context.clone(),
            staging_target_path: path.display().to_string(),
            volume_capability: Some(self.capability()?),
            // Staging serves all pods: nothing of a pod goes in here.
            volume_context: self.csi.volume_attributes.clone().unwrap_or_default(),
            secrets: self.secrets,
        })
    }

    /// `staging`: empty for filesystems of drivers that do not stage, always set for devices.
    pub fn publish(
        self,
        staging: Option<&Path>,
        target: &Path,
        read_only: bool,
        about: About<'_>,
    ) -> Result<NodePublishVolumeRequest, String> {
        let spec = about.driver.map(|driver| &driver.spec);
        let mut volume_context = self.csi.volume_attributes.clone().unwrap_or_default();
        if spec.and_then(|s| s.pod_info_on_mount).unwrap_or(false) {
            volume_context.extend(pod_info(about.pod, about.ephemeral));
        }
        let mut secrets = self.secrets.clone();
        if let Some(tokens) = about.tokens {
            let secret = spec.and_then(|s| s.service_account_token_in_secrets).unwrap_or(false);
            let place = if secret { &mut secrets } else { &mut volume_context };
            place.insert(keys::POD_TOKENS.to_owned(), tokens);
        }
        Ok(NodePublishVolumeRequest {
            volume_id: self.csi.volume_handle.clone(),
            publish_context: self.context.clone(),
            staging_target_path: staging.map(|p| p.display().to_string()).unwrap_or_default(),
            target_path: target.display().to_string(),
            volume_capability: Some(self.capability()?),
            readonly: read_only,
            volume_context,
            secrets,
        })
    }

    /// `path`: where a pod has the volume.
    pub fn expand(
        self,
        staging: Option<&Path>,
        path: &Path,
        bytes: i64,
    ) -> Result<NodeExpandVolumeRequest, String> {
        Ok(NodeExpandVolumeRequest {
            volume_id: self.csi.volume_handle.clone(),
            volume_path: path.display().to_string(),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            staging_target_path: staging.map(|p| p.display().to_string()).unwrap_or_default(),
            volume_capability: Some(self.capability()?),
            secrets: self.secrets,
        })
    }

    /// Only the first access mode counts.
    fn capability(&self) -> Result<VolumeCapability, String> {
        let single_node =
            if self.able.single_node_multi_writer { SingleNode::MultiWriter } else { SingleNode::Plain };
        let modes = volume::volume_access_modes(self.pv);
        let mode = capability::access_mode(&modes[..modes.len().min(1)], single_node)?;
        if volume::volume_mode(self.pv) == volume::BLOCK {
            return Ok(capability::block(mode));
        }
        let options = self.pv.spec.as_ref().and_then(|s| s.mount_options.as_deref()).unwrap_or_default();
        let group = self.fs_group.filter(|_| self.able.volume_mount_group);
        let fs_type = self.csi.fs_type.as_deref().unwrap_or_default();
        Ok(capability::mount_for_group(mode, fs_type, options, group))
    }
}

fn pod_info(pod: &Pod, ephemeral: bool) -> Strings {
    let account = pod.spec.as_ref().and_then(|s| s.service_account_name.as_deref()).unwrap_or_default();
    let info = [
        (keys::POD_NAME, pod.name()),
        (keys::POD_NAMESPACE, pod.namespace()),
        (keys::POD_UID, pod.uid()),
        (keys::POD_SERVICE_ACCOUNT, account),
        (keys::POD_EPHEMERAL, if ephemeral { "true" } else { "false" }),
    ];
    info.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
