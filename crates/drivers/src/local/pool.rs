//! Volumes, snapshots and groups: `<pool>/{volumes,snapshots}/<id>/{record.json, disk.img}` and
//! `<pool>/groups/<id>/record.json`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use bowline_host::disk::Space;

use super::record::{GroupRecord, Phase, SnapshotRecord, VolumeRecord};
use crate::error::{During, VolumeError};
use crate::id::{Group, Snapshot, SnapshotId, Volume, VolumeId};
use crate::shelf::Shelf;

const VOLUMES: &str = "volumes";
const SNAPSHOTS: &str = "snapshots";
const GROUPS: &str = "groups";
const IMAGE: &str = "disk.img";
const PROBE: &str = ".writable";

type Result<T> = std::result::Result<T, VolumeError>;

pub struct Pool {
    host: Host,
    pub volumes: Shelf<Volume, VolumeRecord>,
    pub snapshots: Shelf<Snapshot, SnapshotRecord>,
    pub groups: Shelf<Group, GroupRecord>,
}

impl Pool {
    /// Reads every record and finishes deletions that a crash cut short.
    pub async fn open(host: Host, root: &Path) -> Result<Self> {
        let volumes = Shelf::open(host.clone(), root.join(VOLUMES)).await?;
        let snapshots = Shelf::open(host.clone(), root.join(SNAPSHOTS)).await?;
        let groups = Shelf::open(host.clone(), root.join(GROUPS)).await?;
        let pool = Self { host, volumes, snapshots, groups };
        for (id, record) in pool.volumes.all() {
            if record.phase == Phase::Deleting {
                pool.remove(&id).await?;
            }
        }
        Ok(pool)
    }

    pub fn image(&self, id: &VolumeId) -> PathBuf {
        self.volumes.path(id, IMAGE)
    }

    pub fn snapshot_image(&self, id: &SnapshotId) -> PathBuf {
        self.snapshots.path(id, IMAGE)
    }

    /// A volume that callers may use.
    pub fn ready(&self, id: &VolumeId) -> Result<Arc<VolumeRecord>> {
        let found = self.volumes.get(id).filter(|record| record.phase == Phase::Ready);
        found.ok_or_else(|| VolumeError::NotFound { id: id.to_string() })
    }

    /// How many volumes are published to a node.
    pub fn published_to(&self, node: &str) -> usize {
        self.volumes.all().iter().filter(|(_, record)| record.published.contains_key(node)).count()
    }

    /// Prepares the place of a volume that has no record yet.
    pub async fn make_place(&self, id: &VolumeId) -> Result<()> {
        self.volumes.make_dir(id).await?;
        let image = self.image(id);
        match self.host.disk.kind(&image).await.during("look for an image")? {
            None => Ok(()),
            // Adopting it would hand one workload's bytes to another.
            Some(_) => Err(VolumeError::Foreign { path: image, what: "an image without a record" }),
        }
    }

    pub async fn make_image(&self, id: &VolumeId, size: u64) -> Result<()> {
        self.host.disk.create_sparse(&self.image(id), size).await.during("create image")
    }

    /// Throws an image away whose bytes no workload has seen, and makes an empty one.
    pub async fn renew_image(&self, id: &VolumeId, size: u64) -> Result<()> {
        self.host.disk.remove_file(&self.image(id)).await.during("remove image")?;
        self.make_image(id, size).await
    }

    /// Removes a volume marked `Deleting`. The record goes after the image, so a crash in between leaves
    /// something that still says what it is.
    pub async fn remove(&self, id: &VolumeId) -> Result<()> {
        let point = |name: &str| self.host.failpoints.hit(name);
        self.host.disk.remove_file(&self.image(id)).await.during("remove image")?;
        point("local.delete-volume.after-image");
        self.volumes.forget(id).await?;
        point("local.delete-volume.after-record");
        self.volumes.remove_dir(id).await
    }

    pub async fn space(&self) -> Result<Space> {
        self.host.disk.space(self.volumes.root()).await.during("measure pool")
    }

    /// Whether volumes could be written now: one file made and removed.
    pub async fn check_writable(&self) -> Result<()> {
        let path = self.volumes.root().join(PROBE);
        let disk = &self.host.disk;
        let made = async { disk.create_file(&path).await.and(disk.remove_file(&path).await) };
        made.await.map_err(|source| VolumeError::Unhealthy { source })
    }
}
