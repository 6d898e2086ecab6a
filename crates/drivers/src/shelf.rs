//! Records of one kind: `<root>/<id>/record.json`, beside whatever else belongs to the thing.
//!
//! This process is the only writer. Records are read once at start and kept in memory, so a call costs the
//! same with ten volumes as with ten thousand; a change is on disk before it is in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_host::Host;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{During, VolumeError};
use crate::id::{Id, Kind};

const RECORD: &str = "record.json";
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

type Result<T> = std::result::Result<T, VolumeError>;

/// What a shelf keeps.
pub trait Record: Serialize + DeserializeOwned + Clone {
    /// Layout of the file. Another one is refused, since guessing could destroy data.
    const VERSION: u32;
    fn version(&self) -> u32;
}

pub struct Shelf<K, R> {
    host: Host,
    root: PathBuf,
    records: Mutex<BTreeMap<Id<K>, Arc<R>>>,
}

impl<K: Kind + Clone + Ord, R: Record> Shelf<K, R> {
    pub async fn open(host: Host, root: PathBuf) -> Result<Self> {
        let shelf = Self { host, root, records: Mutex::default() };
        shelf.host.disk.create_dir_all(&shelf.root, DIR_MODE).await.during("create pool directory")?;
        for name in shelf.host.disk.list(&shelf.root).await.during("list pool")? {
            let Some(id) = Id::parse(&name) else { continue };
            shelf.load(id).await?;
        }
        Ok(shelf)
    }

    async fn load(&self, id: Id<K>) -> Result<()> {
        let path = self.path(&id, RECORD);
        if self.host.disk.kind(&path).await.during("look for a record")?.is_none() {
            // Either creation died before its first write or deletion after its last. Removing the directory
            // fails, harmlessly, if it holds anything.
            if let Err(error) = self.remove_dir(&id).await {
                tracing::warn!(id = %id, %error, "directory without a record is not empty");
            }
            return Ok(());
        }
        let bytes = self.host.disk.read(&path).await.during("read record")?;
        let record = decode::<R>(&bytes).map_err(|source| VolumeError::Record { path, source })?;
        self.lock().insert(id, Arc::new(record));
        Ok(())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file that belongs to the thing.
    pub fn path(&self, id: &Id<K>, file: &str) -> PathBuf {
        self.dir(id).join(file)
    }

    pub fn get(&self, id: &Id<K>) -> Option<Arc<R>> {
        self.lock().get(id).cloned()
    }

    /// Everything, in id order.
    pub fn all(&self) -> Vec<(Id<K>, Arc<R>)> {
        self.lock().iter().map(|(id, record)| (id.clone(), record.clone())).collect()
    }

    /// Up to `count` records in id order after `last` that are `wanted`, and whether more follow.
    pub fn page(
        &self,
        last: Option<&Id<K>>,
        count: usize,
        wanted: impl Fn(&Id<K>, &R) -> bool,
    ) -> (Vec<(Id<K>, Arc<R>)>, bool) {
        let records = self.lock();
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = records.range((start, Bound::Unbounded)).filter(|(id, record)| wanted(id, record));
        let page = rest.by_ref().take(count).map(|(id, record)| (id.clone(), record.clone())).collect();
        (page, rest.next().is_some())
    }

    pub async fn put(&self, id: &Id<K>, record: R) -> Result<()> {
        let path = self.path(id, RECORD);
        let bytes = serde_json::to_vec_pretty(&record)
            .map_err(|source| VolumeError::Record { path: path.clone(), source })?;
        self.host.disk.write_atomic(&path, &bytes, FILE_MODE).await.during("write record")?;
        self.lock().insert(id.clone(), Arc::new(record));
        Ok(())
    }

    /// Prepares the place of something that has no record yet.
    pub async fn make_dir(&self, id: &Id<K>) -> Result<()> {
        self.host.disk.create_dir_all(&self.dir(id), DIR_MODE).await.during("create volume directory")
    }

    /// Removes the record and forgets the thing; its directory stays.
    pub async fn forget(&self, id: &Id<K>) -> Result<()> {
        self.host.disk.remove_file(&self.path(id, RECORD)).await.during("remove record")?;
        self.lock().remove(id);
        Ok(())
    }

    pub async fn remove_dir(&self, id: &Id<K>) -> Result<()> {
        self.host.disk.remove_dir(&self.dir(id)).await.during("remove volume directory")
    }

    fn dir(&self, id: &Id<K>) -> PathBuf {
        self.root.join(id.as_str())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id<K>, Arc<R>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode<R: Record>(bytes: &[u8]) -> std::result::Result<R, serde_json::Error> {
    let record: R = serde_json::from_slice(bytes)?;
    match record.version() {
        version if version == R::VERSION => Ok(record),
        other => Err(serde::de::Error::custom(format!("layout {other} is not known"))),
    }
}
