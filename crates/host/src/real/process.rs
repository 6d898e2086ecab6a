//! Telling one process from a later one with the same number.

use std::fs;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// A process for good: numbers are used again, start times of one boot are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    start: u64,
    /// Which boot.
    boot: String,
}

impl Process {
    pub fn this() -> Option<Self> {
        Self::with_pid(std::process::id())
    }

    pub fn with_pid(pid: u32) -> Option<Self> {
        Some(Self { pid, start: start_of_live(pid)?, boot: boot()? })
    }

    pub fn is_alive(&self) -> bool {
        start_of_live(self.pid) == Some(self.start) && boot().as_ref() == Some(&self.boot)
    }

    /// A handle that can be waited on and signalled; nothing when the process has ended.
    pub fn open(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Alive after opening: so the handle is of this process, not of a successor.
        self.is_alive().then_some(handle)
    }
}

/// The start time of a process that is not just waiting to be buried.
fn start_of_live(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may hold anything. After it: state is field 3, start field 22.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_string())
}
