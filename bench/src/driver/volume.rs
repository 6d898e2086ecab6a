//! One volume's life, as a container orchestrator leads it: every call in its turn, and back again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bowline_proto::csi::v1::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume, access_mode,
};
use bowline_proto::csi::v1::{self as csi, volume_content_source as source};

use super::log::{Log, Rpc};
use super::subject::{Subject, why};
use crate::args::Fs;

/// What is asked of a volume.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub name: String,
    pub bytes: u64,
    pub fs: Fs,
    /// The id of the volume to clone.
    pub source: Option<String>,
}

impl Wanted {
    /// Nobody else's volume has this name, nor has one of an earlier run that stayed behind.
    pub fn new(name: String, bytes: u64, fs: Fs) -> Self {
        Self { name: format!("bench-{}-{name}", std::process::id()), bytes, fs, source: None }
    }
}

/// A volume that may exist, and the calls that may have taken effect.
pub struct Volume<'a> {
    subject: &'a Subject,
    log: &'a Log,
    wanted: Wanted,
    /// Below it stand the staging and the publish path.
    dir: PathBuf,
    made: csi::Volume,
    publish_context: BTreeMap<String, String>,
    /// Calls that still have to be undone, whatever they answered: a failed call may have done half its work.
    begun: Vec<Rpc>,
}

impl<'a> Volume<'a> {
    pub async fn create(subject: &'a Subject, log: &'a Log, wanted: Wanted, dir: &Path) -> Result<Self> {
        let required_bytes = i64::try_from(wanted.bytes).context("a size in bytes")?;
        let topology = subject.topology.iter().cloned();
        let request = csi::CreateVolumeRequest {
            name: wanted.name.clone(),
            capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
            volume_capabilities: vec![capability(wanted.fs)],
            volume_content_source: wanted.source.clone().map(content_source),
            accessibility_requirements: subject.topology.is_some().then(|| csi::TopologyRequirement {
                requisite: topology.clone().collect(),
                preferred: topology.collect(),
            }),
            ..Default::default()
        };
        let mut client = subject.driver.controller();
        let call = async move { client.create_volume(request).await.map_err(why) };
        let made = log.time(Rpc::CreateVolume, call).await?.into_inner().volume;
        let made = made.context("CreateVolume answered without a volume")?;
        let dir = dir.join(&wanted.name);
        let begun = vec![Rpc::CreateVolume];
        Ok(Self { subject, log, wanted, dir, made, publish_context: BTreeMap::new(), begun })
    }

    /// What follows is written down elsewhere.
    pub fn logged_by(self, log: &'a Log) -> Self {
        Self { log, ..self }
    }

    pub fn id(&self) -> &str {
        &self.made.volume_id
    }

    fn staging(&self) -> PathBuf {
        self.dir.join("staging")
    }

    /// Where the workload finds the volume.
    pub fn target(&self) -> PathBuf {
        self.dir.join("target")
    }

    /// From a volume that exists to one that a workload can use.
    pub async fn up(&mut self) -> Result<()> {
        // The caller makes the staging directory and the parent of the target, the driver the target.
        tokio::fs::create_dir_all(self.staging()).await.context("make the staging directory")?;
        if self.subject.attaches() {
            self.begun.push(Rpc::ControllerPublishVolume);
            self.controller_publish().await?;
        }
        if self.subject.stages() {
            self.begun.push(Rpc::NodeStageVolume);
            self.node_stage().await?;
        }
        self.begun.push(Rpc::NodePublishVolume);
        self.node_publish().await
    }

    /// Undoes `up`: the volume exists and nobody uses it.
    pub async fn down(&mut self) -> Result<()> {
        self.undo_until(1).await
    }

    pub async fn delete(mut self) -> Result<()> {
        self.undo_until(0).await?;
        tokio::fs::remove_dir_all(&self.dir).await.or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error).context("remove the volume's directories"),
        })
    }

    /// Undoes the last call first. One that cannot be undone is tried once more, since another volume may
    /// have been in its way; then the rest stays as it is: going on would pull the ground from under it.
    async fn undo_until(&mut self, left: usize) -> Result<()> {
        while self.begun.len() > left {
            let Some(rpc) = self.begun.last().copied() else { break };
            if self.undo(rpc).await.is_err() {
                self.undo(rpc).await.with_context(|| format!("volume `{}` stays behind", self.id()))?;
            }
            self.begun.pop();
        }
        Ok(())
    }

    async fn undo(&self, rpc: Rpc) -> Result<()> {
        match rpc {
            Rpc::CreateVolume => self.delete_volume().await,
            Rpc::ControllerPublishVolume => self.controller_unpublish().await,
            Rpc::NodeStageVolume => self.node_unstage().await,
            Rpc::NodePublishVolume => self.node_unpublish().await,
            Rpc::NodeUnpublishVolume
            | Rpc::NodeUnstageVolume
            | Rpc::ControllerUnpublishVolume
            | Rpc::DeleteVolume => Ok(()),
        }
    }

    async fn controller_publish(&mut self) -> Result<()> {
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: self.made.volume_id.clone(),
            node_id: self.subject.node_id.clone(),
            volume_capability: Some(capability(self.wanted.fs)),
            volume_context: self.made.volume_context.clone(),
            ..Default::default()
        };
        let mut client = self.subject.driver.controller();
        let call = async move { client.controller_publish_volume(request).await.map_err(why) };
        let answer = self.log.time(Rpc::ControllerPublishVolume, call).await?;
        self.publish_context = answer.into_inner().publish_context;
        Ok(())
    }

    async fn node_stage(&self) -> Result<()> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: self.made.volume_id.clone(),
            publish_context: self.publish_context.clone(),
            staging_target_path: text(&self.staging()),
            volume_capability: Some(capability(self.wanted.fs)),
            volume_context: self.made.volume_context.clone(),
            ..Default::default()
        };
        let mut client = self.subject.driver.node();
        let call = async move { client.node_stage_volume(request).await.map_err(why) };
        self.log.time(Rpc::NodeStageVolume, call).await.map(drop)
    }

    async fn node_publish(&self) -> Result<()> {
        let staging = if self.subject.stages() { text(&self.staging()) } else { String::new() };
        let request = csi::NodePublishVolumeRequest {
            volume_id: self.made.volume_id.clone(),
            publish_context: self.publish_context.clone(),
            staging_target_path: staging,
            target_path: text(&self.target()),
            volume_capability: Some(capability(self.wanted.fs)),
            volume_context: self.made.volume_context.clone(),
            ..Default::default()
        };
        let mut client = self.subject.driver.node();
        let call = async move { client.node_publish_volume(request).await.map_err(why) };
        self.log.time(Rpc::NodePublishVolume, call).await.map(drop)
    }

    async fn node_unpublish(&self) -> Result<()> {
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id: self.made.volume_id.clone(),
            target_path: text(&self.target()),
        };
        let mut client = self.subject.driver.node();
        let call = async move { client.node_unpublish_volume(request).await.map_err(why) };
        self.log.time(Rpc::NodeUnpublishVolume, call).await.map(drop)
    }

    async fn node_unstage(&self) -> Result<()> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: self.made.volume_id.clone(),
            staging_target_path: text(&self.staging()),
        };
        let mut client = self.subject.driver.node();
        let call = async move { client.node_unstage_volume(request).await.map_err(why) };
        self.log.time(Rpc::NodeUnstageVolume, call).await.map(drop)
    }

    async fn controller_unpublish(&self) -> Result<()> {
        let request = csi::ControllerUnpublishVolumeRequest {
            volume_id: self.made.volume_id.clone(),
            node_id: self.subject.node_id.clone(),
            ..Default::default()
        };
        let mut client = self.subject.driver.controller();
        let call = async move { client.controller_unpublish_volume(request).await.map_err(why) };
        self.log.time(Rpc::ControllerUnpublishVolume, call).await.map(drop)
    }

    async fn delete_volume(&self) -> Result<()> {
        let volume_id = self.made.volume_id.clone();
        let request = csi::DeleteVolumeRequest { volume_id, ..Default::default() };
        let mut client = self.subject.driver.controller();
        let call = async move { client.delete_volume(request).await.map_err(why) };
        self.log.time(Rpc::DeleteVolume, call).await.map(drop)
    }
}

fn capability(fs: Fs) -> csi::VolumeCapability {
    let access = match fs.name() {
        Some(name) => AccessType::Mount(MountVolume { fs_type: name.to_owned(), ..Default::default() }),
        None => AccessType::Block(BlockVolume {}),
    };
    let mode = access_mode::Mode::SingleNodeWriter.into();
    csi::VolumeCapability { access_type: Some(access), access_mode: Some(AccessMode { mode }) }
}

fn content_source(volume_id: String) -> csi::VolumeContentSource {
    let volume = source::Type::Volume(source::VolumeSource { volume_id });
    csi::VolumeContentSource { r#type: Some(volume) }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
