//! Everything that is looked at, as plain data.

use std::path::{Path, PathBuf};

pub use bowline_host::disk::Space;
pub use bowline_host::kernel::{LoopDevice, Mount};

use crate::id::{Group, Id, Snapshot, Volume};
use crate::local::record::{GroupRecord, IMAGE, SnapshotRecord, VolumeRecord};
use crate::shelf::RECORD;
use crate::shelf::found::Found;

#[derive(Debug)]
pub struct Facts {
    /// Without symbolic links, as the kernel spells it.
    pub pool: PathBuf,
    pub space: Space,
    pub volumes: Vec<Thing<Volume, VolumeRecord>>,
    pub snapshots: Vec<Thing<Snapshot, SnapshotRecord>>,
    pub groups: Vec<Thing<Group, GroupRecord>>,
    /// Entries that no volume, snapshot or group can have.
    pub strangers: Vec<PathBuf>,
    pub loops: Vec<LoopDevice>,
    pub mounts: Vec<Mount>,
}

/// One directory of the pool.
#[derive(Debug)]
pub struct Thing<K, R> {
    pub id: Id<K>,
    pub dir: PathBuf,
    /// Or why it cannot be looked at.
    pub found: Result<Found<R>, String>,
    /// Files that were being written.
    pub unfinished: Vec<String>,
    /// Files that this driver does not know.
    pub others: Vec<String>,
}

impl<K, R> Thing<K, R> {
    pub fn record(&self) -> PathBuf {
        self.dir.join(RECORD)
    }

    pub fn image(&self) -> PathBuf {
        self.dir.join(IMAGE)
    }
}

impl Facts {
    /// Loop devices over an image that is in the pool.
    pub fn devices_of<'a>(&'a self, image: &'a Path) -> impl Iterator<Item = &'a LoopDevice> {
        self.loops.iter().filter(move |device| !device.deleted && device.image == image)
    }
}
