//! A driver process with two named nodes, and calls that start it anew where it was killed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::crash::{PROGRAM, Process};
use crate::journey::{Scratch, text, wait_for};

pub const NODES: [&str; 2] = ["node-1", "node-2"];
const SOCKETS: [&str; 2] = ["csi.sock", "csi-2.sock"];

pub struct Machine {
    pub scratch: Scratch,
    process: Process,
    pub capability: csi::VolumeCapability,
    pub died: bool,
}

impl Machine {
    /// A machine whose driver dies at the n-th failpoint, or never.
    pub async fn new(capability: csi::VolumeCapability, failpoints: &str) -> Self {
        let scratch = Scratch::new();
        let process = start(&scratch, failpoints).await;
        Self { scratch, process, capability, died: false }
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel(0))
    }

    fn node(&self, node: usize) -> NodeClient<Channel> {
        NodeClient::new(self.channel(node))
    }

    fn channel(&self, node: usize) -> Channel {
        let socket = self.scratch.path(SOCKETS[node]);
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
        });
        Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
    }

    /// Ends the process without a word and starts another.
    pub async fn kill(&mut self) {
        self.process.kill();
        self.process = start(&self.scratch, "off").await;
    }

    /// Makes a call; if the driver died of it, makes it again on a new process.
    pub async fn call<T>(&mut self, what: &str, call: impl AsyncFn(&Self) -> Result<T, Status>) -> T {
        match call(self).await {
            Ok(answer) => answer,
            Err(status) => {
                assert!(!self.died && self.process.is_dead(), "{what}: {status}");
                self.died = true;
                self.process = start(&self.scratch, "off").await;
                let again = tokio::time::timeout(Duration::from_secs(60), call(self)).await;
                again.unwrap().unwrap_or_else(|s| panic!("{what} again: {s}"))
            }
        }
    }

    pub fn staging(&self, volume: &str, node: usize) -> PathBuf {
        self.scratch.path("staging").join(format!("{volume}-{node}"))
    }

    pub fn target(&self, volume: &str) -> PathBuf {
        self.scratch.path("pods").join(volume)
    }

    pub async fn create(&mut self, name: &str, size: i64, source: Option<csi::VolumeContentSource>) {
        let request = csi::CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(csi::CapacityRange { required_bytes: size, limit_bytes: 0 }),
            volume_capabilities: vec![self.capability.clone()],
            volume_content_source: source,
            ..Default::default()
        };
        let create = async |m: &Self| m.controller().create_volume(request.clone()).await;
        let volume = self.call("create", create).await.into_inner().volume.unwrap();
        assert_eq!((volume.volume_id.as_str(), volume.capacity_bytes), (name, size));
        assert_eq!(volume.content_source, request.volume_content_source);
    }

    pub async fn delete(&mut self, id: &str) {
        let request = csi::DeleteVolumeRequest { volume_id: id.into(), ..Default::default() };
        self.call("delete", async |m| m.controller().delete_volume(request.clone()).await).await;
    }

    pub async fn snapshot(&mut self, name: &str, volume: &str) -> csi::Snapshot {
        let request = csi::CreateSnapshotRequest {
            source_volume_id: volume.into(),
            name: name.into(),
            ..Default::default()
        };
        let answer =
            self.call("snapshot", async |m| m.controller().create_snapshot(request.clone()).await).await;
        let snapshot = answer.into_inner().snapshot.unwrap();
        assert!(snapshot.ready_to_use);
        snapshot
    }

    pub async fn delete_snapshot(&mut self, id: &str) {
        let request = csi::DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        self.call("delete snapshot", async |m| m.controller().delete_snapshot(request.clone()).await).await;
    }

    /// Both parts of an expansion; a mounted ext4 grows only with `CAP_SYS_RESOURCE`.
    pub async fn expand(&mut self, id: &str, size: i64) {
        let range = Some(csi::CapacityRange { required_bytes: size, limit_bytes: 0 });
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: id.into(),
            capacity_range: range,
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        let answer = self
            .call("expand", async |m| m.controller().controller_expand_volume(request.clone()).await)
            .await
            .into_inner();
        assert_eq!(answer.capacity_bytes, size);
        if !answer.node_expansion_required {
            return;
        }
        let request = csi::NodeExpandVolumeRequest {
            volume_id: id.into(),
            volume_path: text(&self.target(id)),
            capacity_range: range,
            ..Default::default()
        };
        let grow = async |m: &Self| match m.node(0).node_expand_volume(request.clone()).await {
            Err(status) if status.code() == Code::FailedPrecondition => Ok(()),
            other => other.map(drop),
        };
        self.call("node expand", grow).await;
    }

    pub async fn set_up(&mut self, id: &str, node: usize) {
        let (staging, target) = (self.staging(id, node), self.target(id));
        fs::create_dir_all(&staging).unwrap();
        let attach = csi::ControllerPublishVolumeRequest {
            volume_id: id.into(),
            node_id: NODES[node].into(),
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        self.call("attach", async |m| m.controller().controller_publish_volume(attach.clone()).await).await;
        let stage = csi::NodeStageVolumeRequest {
            volume_id: id.into(),
            staging_target_path: text(&staging),
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        self.call("stage", async |m| m.node(node).node_stage_volume(stage.clone()).await).await;
        let publish = csi::NodePublishVolumeRequest {
            volume_id: id.into(),
            staging_target_path: text(&staging),
            target_path: text(&target),
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        self.call("publish", async |m| m.node(node).node_publish_volume(publish.clone()).await).await;
    }

    pub async fn take_down(&mut self, id: &str, node: usize) {
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: id.into(), target_path: text(&self.target(id)) };
        self.call("unpublish", async |m| m.node(node).node_unpublish_volume(request.clone()).await).await;
        let staging = self.staging(id, node);
        let request =
            csi::NodeUnstageVolumeRequest { volume_id: id.into(), staging_target_path: text(&staging) };
        self.call("unstage", async |m| m.node(node).node_unstage_volume(request.clone()).await).await;
        fs::remove_dir(&staging).unwrap();
        let request = csi::ControllerUnpublishVolumeRequest {
            volume_id: id.into(),
            node_id: NODES[node].into(),
            ..Default::default()
        };
        self.call("detach", async |m| m.controller().controller_unpublish_volume(request.clone()).await)
            .await;
    }
}

/// Serves both nodes when it returns.
async fn start(scratch: &Scratch, failpoints: &str) -> Process {
    let process = Process::start(PROGRAM, scratch, failpoints).await;
    wait_for(&scratch.path(SOCKETS[1])).await;
    process
}
