//! Records and images: `<pool>/volumes/<id>/{record.json, disk.img}`.
//!
//! This process is the only writer. Records are read once at start and kept in memory, so a call costs the
//! same with ten volumes as with ten thousand; a change is on disk before it is in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_host::Host;
use bowline_host::disk::Space;

use super::error::{During, VolumeError};
use super::id::VolumeId;
use super::record::{Phase, VERSION, VolumeRecord};

const VOLUMES: &str = "volumes";
const RECORD: &str = "record.json";
const IMAGE: &str = "disk.img";
const PROBE: &str = ".writable";
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

type Result<T> = std::result::Result<T, VolumeError>;

pub struct Pool {
    host: Host,
    root: PathBuf,
    records: Mutex<BTreeMap<VolumeId, VolumeRecord>>,
}

impl Pool {
    /// Reads every record and finishes deletions that a crash cut short.
    pub async fn open(host: Host, root: &Path) -> Result<Self> {
        let pool = Self { host, root: root.join(VOLUMES), records: Mutex::default() };
        pool.host.disk.create_dir_all(&pool.root, DIR_MODE).await.during("create pool directory")?;
        for name in pool.host.disk.list(&pool.root).await.during("list pool")? {
            let Some(id) = VolumeId::parse(&name) else { continue };
            pool.load(id).await?;
        }
        Ok(pool)
    }

    async fn load(&self, id: VolumeId) -> Result<()> {
        let path = self.dir(&id).join(RECORD);
        if self.host.disk.kind(&path).await.during("look for a record")?.is_none() {
            // Either creation died before its first write or deletion after its last. Removing the directory
            // fails, harmlessly, if it holds anything.
            if let Err(error) = self.host.disk.remove_dir(&self.dir(&id)).await {
                tracing::warn!(volume = %id, %error, "directory without a record is not empty");
            }
            return Ok(());
        }
        let bytes = self.host.disk.read(&path).await.during("read record")?;
        let record = decode(&bytes).map_err(|source| VolumeError::Record { path, source })?;
        let deleting = record.phase == Phase::Deleting;
        self.lock().insert(id.clone(), record);
        if deleting { self.remove(&id).await } else { Ok(()) }
    }

    pub fn image(&self, id: &VolumeId) -> PathBuf {
        self.dir(id).join(IMAGE)
    }

    pub fn get(&self, id: &VolumeId) -> Option<VolumeRecord> {
        self.lock().get(id).cloned()
    }

    /// A volume that callers may use.
    pub fn ready(&self, id: &VolumeId) -> Result<VolumeRecord> {
        let found = self.get(id).filter(|record| record.phase == Phase::Ready);
        found.ok_or_else(|| VolumeError::NotFound { id: id.to_string() })
    }

    /// Up to `count` volumes in id order after `last`, and whether more follow.
    pub fn page(&self, last: Option<&VolumeId>, count: usize) -> (Vec<(VolumeId, VolumeRecord)>, bool) {
        let records = self.lock();
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest =
            records.range((start, Bound::Unbounded)).filter(|(_, record)| record.phase != Phase::Deleting);
        let page = rest.by_ref().take(count).map(|(id, record)| (id.clone(), record.clone())).collect();
        (page, rest.next().is_some())
    }

    /// How many volumes are published to a node.
    pub fn published_to(&self, node: &str) -> usize {
        let on_node = |r: &&VolumeRecord| r.published.as_ref().is_some_and(|p| p.node == node);
        self.lock().values().filter(on_node).count()
    }

    pub async fn put(&self, id: &VolumeId, record: VolumeRecord) -> Result<()> {
        let path = self.dir(id).join(RECORD);
        let bytes = serde_json::to_vec_pretty(&record)
            .map_err(|source| VolumeError::Record { path: path.clone(), source })?;
        self.host.disk.write_atomic(&path, &bytes, FILE_MODE).await.during("write record")?;
        self.lock().insert(id.clone(), record);
        Ok(())
    }

    /// Prepares the place of a volume that has no record yet.
    pub async fn make_dir(&self, id: &VolumeId) -> Result<()> {
        self.host.disk.create_dir_all(&self.dir(id), DIR_MODE).await.during("create volume directory")?;
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
        self.host.disk.remove_file(&self.dir(id).join(RECORD)).await.during("remove record")?;
        self.lock().remove(id);
        point("local.delete-volume.after-record");
        self.remove_dir(id).await
    }

    pub async fn remove_dir(&self, id: &VolumeId) -> Result<()> {
        self.host.disk.remove_dir(&self.dir(id)).await.during("remove volume directory")
    }

    pub async fn space(&self) -> Result<Space> {
        self.host.disk.space(&self.root).await.during("measure pool")
    }

    /// Whether volumes could be written now: one file made and removed.
    pub async fn check_writable(&self) -> Result<()> {
        let path = self.root.join(PROBE);
        let disk = &self.host.disk;
        let made = async { disk.create_file(&path).await.and(disk.remove_file(&path).await) };
        made.await.map_err(|source| VolumeError::Unhealthy { source })
    }

    fn dir(&self, id: &VolumeId) -> PathBuf {
        self.root.join(id.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, VolumeRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode(bytes: &[u8]) -> std::result::Result<VolumeRecord, serde_json::Error> {
    let record: VolumeRecord = serde_json::from_slice(bytes)?;
    match record.version {
        VERSION => Ok(record),
        other => Err(serde::de::Error::custom(format!("layout {other} is not known"))),
    }
}
