//! Records of one kind: `<root>/<id>/record.json`, beside whatever else belongs to the thing.
//!
//! This process is the only writer. Records are read once at start and kept in memory, so a call costs the
//! same with ten volumes as with ten thousand; a change is on disk before it is in memory. Where a thing has an
//! image, that carries a copy of the record's lasting facts, so that a lost record is no lost volume.

pub mod found;
pub mod label;
mod ledger;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_host::Host;
use bowline_host::disk::Space;
use futures::stream::{self, StreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::found::{Image, Read};
use self::label::LABEL;
use self::ledger::Ledger;
use self::verdict::{Spoilt, Verdict};
use crate::error::{During, VolumeError, chain};
use crate::id::{Id, Kind};

pub const RECORD: &str = "record.json";
pub const DIR_MODE: u32 = 0o700;
pub const FILE_MODE: u32 = 0o600;
/// Records read at the same time at start.
const READERS: usize = 32;
const PROBE: &str = ".writable";

type Result<T> = std::result::Result<T, VolumeError>;

/// What a shelf keeps.
pub trait Record: Serialize + DeserializeOwned + Clone {
    /// Layout of the file. Another one is refused, since guessing could destroy data.
    const VERSION: u32;
    /// The file beside the record that carries a copy of it, for kinds that have one.
    const IMAGE: Option<&'static str> = None;

    fn version(&self) -> u32;

    /// Bytes it promises to somebody.
    fn promised(&self) -> u64 {
        0
    }

    /// Whether the image is there and shall carry the copy.
    fn has_image(&self) -> bool {
        false
    }

    /// The copy: what holds however the thing is used at the moment.
    fn lasting(&self) -> Self {
        self.clone()
    }

    /// The record made of a copy that was found on this image.
    fn rebuilt(self, _image: Image) -> Self {
        self
    }

    /// Under which names the shelf counts the thing.
    fn counted(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// What belongs to it may be missing; a repeat of the call completes it.
    Creating,
    Ready,
    /// What belonged to it may be gone; a repeat of the call, or a restart, completes it.
    Deleting,
}

pub struct Shelf<K, R> {
    host: Host,
    root: PathBuf,
    ledger: Mutex<Ledger<K, R>>,
}

impl<K: Kind + Clone + Ord, R: Record> Shelf<K, R> {
    /// Reads every record. One that is spoilt keeps only its own thing from being used.
    pub async fn open(host: Host, root: PathBuf) -> Result<Self> {
        host.disk.create_dir_all(&root, DIR_MODE).await.during("create pool directory")?;
        // The mount table names what belongs to a record without links.
        let root = host.disk.canonical(&root).await.during("resolve pool directory")?;
        let shelf = Self { host, root, ledger: Mutex::new(Ledger::default()) };
        let names = shelf.host.disk.list(&shelf.root).await.during("list pool")?;
        let mut ids = Vec::new();
        ids.extend(names.iter().filter_map(|name| Id::parse(name)));
        shelf.load(ids).await;
        Ok(shelf)
    }

    async fn load(&self, ids: Vec<Id<K>>) {
        let read = async |id: Id<K>| {
            let record = found::record(&*self.host.disk, &self.dir(&id)).await;
            (id, record)
        };
        let mut records = stream::iter(ids).map(read).buffered(READERS);
        while let Some((id, record)) = records.next().await {
            match record {
                Read::Good(record) => self.ledger().insert(id, record),
                spoilt => self.recover(id, spoilt).await,
            }
        }
    }

    async fn recover(&self, id: Id<K>, record: Read<R>) {
        let verdict = match found::look_beside(&*self.host.disk, &self.dir(&id), record).await {
            Ok(found) => verdict::judge(&id, found),
            Err(error) => {
                let why = format!("its image cannot be looked at ({error})");
                Verdict::Quarantine(Spoilt { why, lost: false })
            }
        };
        match verdict {
            Verdict::Keep(record) => self.ledger().insert(id, record),
            Verdict::Rebuild(record) => {
                tracing::warn!(thing = %id.key(), "record was lost and is rebuilt from the label of its image");
                self.restore(&id, record).await;
            }
            Verdict::Quarantine(spoilt) => {
                tracing::error!(thing = %id.key(), why = spoilt.why, "cannot be used");
                self.ledger().quarantined.insert(id, spoilt);
            }
            Verdict::Nothing => {
                // Fails, harmlessly, if the directory holds anything else.
                if let Err(error) = self.remove_dir(&id).await {
                    tracing::warn!(thing = %id.key(), error = chain(&error), "directory without a record stays");
                }
            }
        }
    }

    /// Takes a record in whose file was lost. A disk that cannot be written now does not hide the thing.
    pub async fn restore(&self, id: &Id<K>, record: R) {
        self.ledger().quarantined.remove(id);
        if let Err(error) = self.put(id, record.clone()).await {
            tracing::warn!(thing = %id.key(), error = chain(&error), "rebuilt record is only in memory");
            self.ledger().insert(id.clone(), record);
        }
    }

    /// Where the things are, without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file that belongs to the thing.
    pub fn path(&self, id: &Id<K>, file: &str) -> PathBuf {
        self.dir(id).join(file)
    }

    pub fn get(&self, id: &Id<K>) -> Option<Arc<R>> {
        self.ledger().records.get(id).cloned()
    }

    /// Bytes promised by all records together.
    pub fn promised(&self) -> u128 {
        self.ledger().promised
    }

    /// Things that cannot be used, and why.
    pub fn quarantined(&self) -> BTreeMap<Id<K>, String> {
        let ledger = self.ledger();
        ledger.quarantined.iter().map(|(id, spoilt)| (id.clone(), spoilt.why.clone())).collect()
    }

    /// Whether there is no record of this id, and none that is merely out of reach.
    pub fn is_lost(&self, id: &Id<K>) -> bool {
        let ledger = self.ledger();
        !ledger.records.contains_key(id) && ledger.quarantined.get(id).is_none_or(|spoilt| spoilt.lost)
    }

    /// Everything, in id order.
    pub fn all(&self) -> Vec<(Id<K>, Arc<R>)> {
        self.ledger().records.iter().map(|(id, record)| (id.clone(), record.clone())).collect()
    }

    /// How many things are counted under a name.
    pub fn count(&self, name: &str) -> usize {
        self.ledger().count(name)
    }

    /// Up to `count` records in id order after `last` that are `wanted`, and whether more follow.
    pub fn page(
        &self,
        last: Option<&Id<K>>,
        count: usize,
        wanted: impl Fn(&Id<K>, &R) -> bool,
    ) -> (Vec<(Id<K>, Arc<R>)>, bool) {
        let ledger = self.ledger();
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest =
            ledger.records.range((start, Bound::Unbounded)).filter(|(id, record)| wanted(id, record));
        let page = rest.by_ref().take(count).map(|(id, record)| (id.clone(), record.clone())).collect();
        (page, rest.next().is_some())
    }

    /// Writes a record, and before it the image's copy if that says something else by now.
    pub async fn put(&self, id: &Id<K>, record: R) -> Result<()> {
        self.refuse_quarantined(id)?;
        self.label(id, &record).await?;
        let bytes = serde_json::to_vec_pretty(&record)
            .map_err(|source| VolumeError::Encode { what: id.key(), source })?;
        let path = self.path(id, RECORD);
        self.host.disk.write_atomic(&path, &bytes, FILE_MODE).await.during("write record")?;
        self.ledger().insert(id.clone(), record);
        Ok(())
    }

    async fn label(&self, id: &Id<K>, record: &R) -> Result<()> {
        let Some(image) = R::IMAGE else { return Ok(()) };
        let label = label::encode(id, record)?;
        let old = self.get(id).filter(|old| old.has_image());
        let same = old.is_some_and(|old| label::encode(id, &*old).is_ok_and(|old| old == label));
        if same || !record.has_image() {
            return Ok(());
        }
        match self.host.disk.set_label(&self.path(id, image), LABEL, &label).await {
            // Said once at start: this pool cannot be rebuilt without its records.
            Err(error) if lacks_labels(&error) => Ok(()),
            set => {
                self.host.failpoints.hit("shelf.put.after-label");
                set.during("label image")
            }
        }
    }

    /// Writes a record of something that was taken down. A disk that cannot be written must not keep a workload from
    /// ending: the record is then kept in memory, and what the disk still says is compared with the kernel at the next
    /// start.
    pub async fn put_after_teardown(&self, id: &Id<K>, record: R) {
        if let Err(error) = self.put(id, record.clone()).await {
            let error = chain(&error);
            tracing::warn!(thing = %id.key(), error, "could not record that it was taken down; kept in memory only");
            self.ledger().insert(id.clone(), record);
        }
    }

    pub fn is_quarantined(&self, id: &Id<K>) -> bool {
        self.ledger().quarantined.contains_key(id)
    }

    /// Nobody knows what a quarantined thing is, so nothing takes its place.
    pub fn refuse_quarantined(&self, id: &Id<K>) -> Result<()> {
        match self.ledger().quarantined.get(id) {
            Some(spoilt) => Err(VolumeError::Quarantined { what: id.key(), why: spoilt.why.clone() }),
            None => Ok(()),
        }
    }

    /// Prepares the place of something that has no record yet.
    pub async fn make_dir(&self, id: &Id<K>) -> Result<()> {
        self.host.disk.create_dir_all(&self.dir(id), DIR_MODE).await.during("create volume directory")
    }

    /// Removes the record and forgets the thing; its directory stays.
    pub async fn forget(&self, id: &Id<K>) -> Result<()> {
        self.host.disk.remove_file(&self.path(id, RECORD)).await.during("remove record")?;
        self.ledger().remove(id);
        Ok(())
    }

    pub async fn remove_dir(&self, id: &Id<K>) -> Result<()> {
        self.host.disk.remove_dir(&self.dir(id)).await.during("remove volume directory")
    }

    pub async fn space(&self) -> Result<Space> {
        self.host.disk.space(&self.root).await.during("measure pool")
    }

    /// Whether something could be written now: one file made and removed.
    pub async fn check_writable(&self) -> Result<()> {
        let path = self.root.join(PROBE);
        let disk = &self.host.disk;
        let made = async { disk.create_file(&path).await.and(disk.remove_file(&path).await) };
        made.await.map_err(|source| VolumeError::Unhealthy { source })
    }

    pub fn dir(&self, id: &Id<K>) -> PathBuf {
        self.root.join(id.as_str())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger<K, R>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether files cannot be labelled here at all: the filesystem has no attributes, or we lack the privilege.
pub fn lacks_labels(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}
