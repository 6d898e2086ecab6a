//! What the driver remembers of a volume: one small JSON file beside its directory.
//!
//! Only what cannot be seen is written down. Where a volume is published is asked of the kernel each time, because
//! a reboot undoes it without telling us.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::directory::Directory;
pub use crate::shelf::Phase;
use crate::shelf::Record;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShareRecord {
    pub version: u32,
    pub name: String,
    pub phase: Phase,
    /// Bytes promised and not enforced; zero when none were asked for.
    pub capacity: u64,
    pub directory: Directory,
    /// The one target of an inline volume, which goes when it is unpublished there.
    pub inline: Option<PathBuf>,
    /// The group that the directory was last given to.
    pub group: Option<u32>,
    /// The target that must stay the only one. True only while the kernel confirms it.
    pub only: Option<PathBuf>,
}

impl ShareRecord {
    pub fn new(name: &str, capacity: u64, directory: Directory, inline: Option<PathBuf>) -> Self {
        Self {
            version: Self::VERSION,
            name: name.to_owned(),
            phase: Phase::Creating,
            capacity,
            directory,
            inline,
            group: None,
            only: None,
        }
    }
}

impl Record for ShareRecord {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}
