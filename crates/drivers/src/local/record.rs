//! What the driver remembers of a volume or snapshot: one small JSON file beside its image.
//!
//! Only what cannot be seen is written down. Whether a volume is mounted or attached is asked of the kernel
//! each time, because a reboot undoes both without telling us.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::capability::{FsType, Mode};
use crate::id::{GroupId, SnapshotId, VolumeId};
pub use crate::shelf::Phase;
use crate::shelf::Record;
use crate::shelf::found::Image;

/// The bytes of a volume or snapshot, in the directory of its record.
pub const IMAGE: &str = "disk.img";

pub type Segments = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRecord {
    pub version: u32,
    pub name: String,
    pub phase: Phase,
    pub capacity: u64,
    pub access: Access,
    /// Without secrets and without the metadata callers inject, which may differ between retries.
    pub parameters: BTreeMap<String, String>,
    /// Settings that may change during the volume's life.
    pub mutable: Settings,
    /// Where its first bytes came from.
    pub source: Option<Source>,
    pub topology: Segments,
    pub contents: Contents,
    /// The size of the device that the filesystem cannot fill any further, if it stays below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<u64>,
    /// By node.
    pub published: BTreeMap<String, Attachment>,
    /// By node, the last staging that began there. True only while the kernel confirms it.
    pub staged: BTreeMap<String, Staging>,
    /// The loop device that users of a block staging have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
    /// Made for one target, which is its only staging, and deleted with it.
    #[serde(default)]
    pub ephemeral: bool,
}

impl Record for VolumeRecord {
    const VERSION: u32 = 2;
    const IMAGE: Option<&'static str> = Some(IMAGE);

    fn version(&self) -> u32 {
        self.version
    }

    fn promised(&self) -> u64 {
        self.capacity
    }

    fn has_image(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Where the volume is used has to be told again by who uses it. A marker of mkfs is of use only as long as
    /// the record is there, too.
    fn lasting(&self) -> Self {
        let contents = match self.contents {
            Contents::Formatting(_) => Contents::Blank,
            contents => contents,
        };
        let (published, staged, device) = Default::default();
        Self { phase: Phase::Ready, contents, published, staged, device, ..self.clone() }
    }

    /// A label may be older than the first byte of a workload, so bytes count for more than it says.
    fn rebuilt(self, image: Image) -> Self {
        let contents = match (self.contents, self.access.filesystem) {
            (Contents::Blank | Contents::Formatting(_), Some(fs)) if image.has_data => {
                Contents::Formatted(fs)
            }
            (Contents::Blank | Contents::Formatting(_), None) if image.has_data => Contents::Raw,
            (Contents::Blank | Contents::Formatting(_), _) => Contents::Blank,
            (told @ (Contents::Copied(_) | Contents::Formatted(_) | Contents::Raw), _) => told,
        };
        Self { contents, ..self }
    }

    fn counted(&self) -> impl Iterator<Item = &str> {
        self.published.keys().map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    Snapshot(SnapshotId),
    Volume(VolumeId),
}

/// A volume's bytes at one moment. It needs its volume no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRecord {
    pub version: u32,
    pub name: String,
    pub phase: Phase,
    pub volume: VolumeId,
    /// Bytes a volume made from it has at least.
    pub size: u64,
    /// Seconds since 1970 at which it was cut.
    pub created: u64,
    pub parameters: BTreeMap<String, String>,
    /// Of the volume, when it was cut.
    pub access: Access,
    pub contents: Contents,
    pub topology: Segments,
    pub group: Option<GroupId>,
}

impl Record for SnapshotRecord {
    const VERSION: u32 = 1;
    const IMAGE: Option<&'static str> = Some(IMAGE);

    fn version(&self) -> u32 {
        self.version
    }

    fn promised(&self) -> u64 {
        self.size
    }

    fn has_image(&self) -> bool {
        self.phase == Phase::Ready
    }

    fn lasting(&self) -> Self {
        Self { phase: Phase::Ready, ..self.clone() }
    }
}

/// Snapshots of several volumes, cut at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    pub version: u32,
    pub name: String,
    pub phase: Phase,
    pub volumes: Vec<VolumeId>,
    /// One per volume, in the same order.
    pub snapshots: Vec<SnapshotId>,
    pub parameters: BTreeMap<String, String>,
    pub created: u64,
}

impl Record for GroupRecord {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}

/// What the volume was created for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub block: bool,
    pub filesystem: Option<FsType>,
}

/// What is on the device, as far as this driver put it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contents {
    /// Nothing, and no workload has seen it.
    Blank,
    /// mkfs began and did not report its end. No workload has seen the volume, so it may be made anew.
    Formatting(FsType),
    /// A filesystem copied from a snapshot or volume, never mounted since: it has the identity of its origin.
    Copied(FsType),
    /// A workload may have written through a filesystem.
    Formatted(FsType),
    /// A workload had the bare device, so even bytes that look like nothing may be data.
    Raw,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    pub mode: Mode,
    /// Digest of the capability, which may hold mount flags that must not be stored.
    pub capability: String,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Staging {
    pub path: PathBuf,
    pub block: bool,
    pub read_only: bool,
    pub capability: String,
}
