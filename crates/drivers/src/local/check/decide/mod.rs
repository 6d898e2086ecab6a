//! Facts → findings → what would put them right. Pure, with tables in `check/tests.rs`.

mod devices;
mod groups;
mod things;

use std::path::PathBuf;

use super::facts::Facts;
use super::report::{Finding, Repair, Severity};

/// With less room than this, everything that writes is about to fail.
const ROOM_MIN: u64 = 1 << 20;

/// One change. Each is right whatever happened to those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    MakeDir(PathBuf),
    WriteRecord { path: PathBuf, bytes: Vec<u8> },
    SetLabel { path: PathBuf, bytes: Vec<u8> },
    RemoveFile(PathBuf),
    RemoveDir(PathBuf),
    Detach { device: PathBuf, image: PathBuf },
}

/// A finding and the changes that would settle it; none where a person has to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    pub finding: Finding,
    pub effects: Vec<Effect>,
}

impl Proposal {
    fn new(
        severity: Severity,
        reason: &'static str,
        object: impl ToString,
        message: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        let (object, message, action) = (object.to_string(), message.into(), action.into());
        let finding =
            Finding { severity, reason, object, message, action, repair: Repair::Manual, error: None };
        Self { finding, effects: Vec::new() }
    }

    fn with(mut self, effects: Vec<Effect>) -> Self {
        self.finding.repair = if effects.is_empty() { Repair::Manual } else { Repair::Possible };
        self.effects = effects;
        self
    }
}

pub fn proposals(facts: &Facts) -> Vec<Proposal> {
    let mut all = pool(facts);
    all.extend(facts.volumes.iter().flat_map(|thing| things::examine(facts, thing)));
    all.extend(facts.snapshots.iter().flat_map(|thing| things::examine(facts, thing)));
    all.extend(groups::examine(facts));
    all.extend(devices::examine(facts));
    all
}

fn pool(facts: &Facts) -> Vec<Proposal> {
    let pool = format!("pool `{}`", facts.pool.display());
    let error =
        |reason, message: &str, action: &str| Proposal::new(Severity::Error, reason, &pool, message, action);
    let mut found = Vec::new();
    let below = facts.mounts.iter().filter(|mount| facts.pool.starts_with(&mount.target));
    // Of two at the same place, the later one shows.
    if below.max_by_key(|mount| mount.target.components().count()).is_some_and(|mount| mount.read_only()) {
        let action = "see what the kernel says of its filesystem, and remount it writable";
        found.push(error("PoolReadOnly", "is on a read-only filesystem", action));
    }
    if facts.space.available < ROOM_MIN {
        let action = "delete volumes or snapshots, or enlarge its filesystem";
        found.push(error("PoolFull", "has no room left", action));
    }
    if facts.space.inodes_total > 0 && facts.space.inodes_available == 0 {
        let action = "delete volumes or snapshots, or move it to a filesystem with more inodes";
        found.push(error("PoolFull", "has no inodes left", action));
    }
    found.extend(facts.strangers.iter().map(|path| {
        let object = format!("file `{}`", path.display());
        let message = "is nothing of this driver";
        Proposal::new(Severity::Note, "UnknownFile", object, message, "move it out of the pool")
    }));
    found
}
