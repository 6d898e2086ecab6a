//! Volumes, snapshots and groups: `<pool>/{volumes,snapshots}/<id>/{record.json, disk.img}` and
//! `<pool>/groups/<id>/record.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use bowline_host::disk::Space;

use super::record::{GroupRecord, IMAGE, Phase, SnapshotRecord, VolumeRecord};
use super::regroup::regroup;
use crate::error::{During, VolumeError, chain};
use crate::id::{Group, GroupId, Key, Snapshot, SnapshotId, Volume, VolumeId};
use crate::shelf::Shelf;

pub const VOLUMES: &str = "volumes";
pub const SNAPSHOTS: &str = "snapshots";
pub const GROUPS: &str = "groups";

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
        regroup(&pool).await;
        for (id, record) in pool.volumes.all() {
            if record.phase == Phase::Deleting
                && let Err(error) = pool.remove(&id).await
            {
                tracing::warn!(volume = %id, error = chain(&error), "deletion stays unfinished");
            }
        }
        Ok(pool)
    }

    /// Takes in a group whose record was lost.
    pub async fn restore_group(&self, id: &GroupId, record: GroupRecord) {
        if let Err(error) = self.groups.make_dir(id).await {
            tracing::warn!(group = %id, error = chain(&error), "rebuilt record cannot be kept");
        }
        self.groups.restore(id, record).await;
    }

    /// Everything that cannot be used, and why.
    pub fn quarantined(&self) -> BTreeMap<Key, String> {
        let volumes = self.volumes.quarantined().into_iter().map(|(id, why)| (id.key(), why));
        let snapshots = self.snapshots.quarantined().into_iter().map(|(id, why)| (id.key(), why));
        let groups = self.groups.quarantined().into_iter().map(|(id, why)| (id.key(), why));
        volumes.chain(snapshots).chain(groups).collect()
    }

    pub fn image(&self, id: &VolumeId) -> PathBuf {
        self.volumes.path(id, IMAGE)
    }

    pub fn snapshot_image(&self, id: &SnapshotId) -> PathBuf {
        self.snapshots.path(id, IMAGE)
    }

    /// A volume that callers may use. An ephemeral one is only for its target.
    pub fn ready(&self, id: &VolumeId) -> Result<Arc<VolumeRecord>> {
        let found = Some(self.present(id)?).filter(|record| !record.ephemeral);
        found.ok_or_else(|| VolumeError::NotFound { id: id.to_string() })
    }

    /// A volume that is there to be looked at, ephemeral or not.
    pub fn present(&self, id: &VolumeId) -> Result<Arc<VolumeRecord>> {
        self.volumes.refuse_quarantined(id)?;
        let found = self.volumes.get(id).filter(|record| record.phase == Phase::Ready);
        found.ok_or_else(|| VolumeError::NotFound { id: id.to_string() })
    }

    /// How many volumes are published to a node.
    pub fn published_to(&self, node: &str) -> usize {
        self.volumes.count(node)
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
        self.volumes.space().await
    }

    /// Whether volumes could be written now.
    pub async fn check_writable(&self) -> Result<()> {
        self.volumes.check_writable().await
    }
}
