//! What the driver remembers of a volume or snapshot: one small JSON file beside its image.
//!
//! Only what cannot be seen is written down. Whether a volume is mounted or attached is asked of the kernel
//! each time, because a reboot undoes both without telling us.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::capability::{FsType, Mode};
use crate::id::{GroupId, SnapshotId, VolumeId};
use crate::shelf::Record;

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
    pub mutable: BTreeMap<String, String>,
    /// Where its first bytes came from.
    pub source: Option<Source>,
    pub topology: Segments,
    pub contents: Contents,
    /// By node.
    pub published: BTreeMap<String, Attachment>,
    /// By node, the last staging that began there. True only while the kernel confirms it.
    pub staged: BTreeMap<String, Staging>,
}

impl Record for VolumeRecord {
    const VERSION: u32 = 2;

    fn version(&self) -> u32 {
        self.version
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

    fn version(&self) -> u32 {
        self.version
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The image may be missing; a repeat of the call completes it.
    Creating,
    Ready,
    /// The image may be gone; a repeat of the call, or a restart, completes it.
    Deleting,
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
