//! What the driver remembers of a volume: one small JSON file beside its image.
//!
//! Only what cannot be seen is written down. Whether a volume is mounted or attached is asked of the kernel
//! each time, because a reboot undoes both without telling us.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::capability::FsType;

/// Layout of the file. A newer one is refused, since guessing could destroy data.
pub const VERSION: u32 = 1;

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
    pub topology: Segments,
    pub contents: Contents,
    pub published: Option<Attachment>,
    /// The last staging that began. True only while the kernel confirms it.
    pub staged: Option<Staging>,
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
    /// A workload may have written through a filesystem.
    Formatted(FsType),
    /// A workload had the bare device, so even bytes that look like nothing may be data.
    Raw,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    pub node: String,
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
