//! Telling one process from a later one with the same number.

use std::fs;
use std::io;

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

fn start_of_live(pid: u32) -> Option<u64> {
    live(pid).map(|stat| stat.start)
}

struct Stat {
    session: u32,
    start: u64,
}

/// What the kernel says of a process that is not just waiting to be buried.
fn live(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may hold anything. After it: state is field 3, session 6, start 22.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let session = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Stat { session, start })
}

/// The processes of a session, in this process's namespace, that have not ended.
pub(super) fn members(session: u32) -> io::Result<Vec<u32>> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if live(pid).is_some_and(|stat| stat.session == session) {
            members.push(pid);
        }
    }
    Ok(members)
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_string())
}
