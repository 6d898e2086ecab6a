//! Any volume of any driver on a scratch directory, and every call a test makes for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use crate::journey::{Answer, NODE, Scratch};

pub struct Volume {
    pub id: String,
    pub mount: MountVolume,
    /// The bare device instead of a filesystem.
    pub block: bool,
    pub source: Option<csi::VolumeContentSource>,
    pub parameters: BTreeMap<String, String>,
    pub size: i64,
    pub staging: PathBuf,
    pub target: PathBuf,
    pub image: PathBuf,
    pub record: PathBuf,
    channel: Channel,
}

impl Volume {
    pub fn new(scratch: &Scratch, id: &str, fs_type: &str) -> Self {
        let socket = scratch.path("csi.sock");
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let place = scratch.path("pool/volumes").join(id);
        Self {
            id: id.into(),
            mount: MountVolume { fs_type: fs_type.into(), ..Default::default() },
            block: false,
            source: None,
            parameters: BTreeMap::new(),
            size: 64 << 20,
            staging: scratch.path("staging").join(id),
            target: scratch.path("pods").join(id),
            image: place.join("disk.img"),
            record: place.join("record.json"),
            channel: Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector),
        }
    }

    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.parameters.insert(key.into(), value.into());
        self
    }

    fn capability(&self) -> csi::VolumeCapability {
        csi::VolumeCapability {
            access_type: Some(match self.block {
                true => AccessType::Block(BlockVolume {}),
                false => AccessType::Mount(self.mount.clone()),
            }),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeMultiWriter.into() }),
        }
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    pub async fn create(&self) -> Answer {
        let request = csi::CreateVolumeRequest {
            name: self.id.clone(),
            capacity_range: Some(csi::CapacityRange { required_bytes: self.size, limit_bytes: 0 }),
            volume_capabilities: vec![self.capability()],
            parameters: self.parameters.clone(),
            volume_content_source: self.source.clone(),
            ..Default::default()
        };
        self.controller().create_volume(request).await?;
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: self.id.clone(),
            node_id: NODE.into(),
            volume_capability: Some(self.capability()),
            ..Default::default()
        };
        self.controller().controller_publish_volume(request).await.map(drop)
    }

    pub async fn delete(&self) -> Answer {
        let volume_id = self.id.clone();
        let request = csi::ControllerUnpublishVolumeRequest { volume_id, ..Default::default() };
        self.controller().controller_unpublish_volume(request).await?;
        let request = csi::DeleteVolumeRequest { volume_id: self.id.clone(), ..Default::default() };
        self.controller().delete_volume(request).await.map(drop)
    }

    pub async fn stage(&self) -> Answer {
        fs::create_dir_all(&self.staging).unwrap();
        let request = csi::NodeStageVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: text(&self.staging),
            volume_capability: Some(self.capability()),
            ..Default::default()
        };
        self.node().node_stage_volume(request).await.map(drop)
    }

    pub async fn unstage(&self) -> Answer {
        let staging_target_path = text(&self.staging);
        let request = csi::NodeUnstageVolumeRequest { volume_id: self.id.clone(), staging_target_path };
        self.node().node_unstage_volume(request).await?;
        fs::remove_dir(&self.staging).unwrap();
        Ok(())
    }

    pub fn publish_request(&self) -> csi::NodePublishVolumeRequest {
        csi::NodePublishVolumeRequest {
            volume_id: self.id.clone(),
            staging_target_path: text(&self.staging),
            target_path: text(&self.target),
            volume_capability: Some(self.capability()),
            ..Default::default()
        }
    }

    pub async fn publish(&self) -> Answer {
        self.node().node_publish_volume(self.publish_request()).await.map(drop)
    }

    pub async fn unpublish(&self) -> Answer {
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: self.id.clone(), target_path: text(&self.target) };
        self.node().node_unpublish_volume(request).await.map(drop)
    }

    pub async fn up(&self) -> Answer {
        self.stage().await?;
        self.publish().await
    }

    pub async fn down(&self) -> Answer {
        self.unpublish().await?;
        self.unstage().await
    }

    /// Options of the mount at a path, as `/proc/self/mountinfo` has them, those of the superblock included.
    pub fn options(path: &Path) -> String {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let path = text(path);
        let line = table.lines().rev().find(|line| line.split(' ').nth(4) == Some(&path)).unwrap();
        let options = line.split(' ').nth(5).unwrap();
        format!("{options},{}", line.rsplit(' ').next().unwrap())
    }
}

pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Runs a program that has to succeed; what it said.
pub fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {args:?}: {said} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}
