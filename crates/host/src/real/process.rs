//! Telling one process from a later one with the same number.

use std::fs;
use std::io;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
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
    pub fn this() -> io::Result<Self> {
        Self::with_pid(std::process::id())?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Nothing when it has ended.
    pub fn with_pid(pid: u32) -> io::Result<Option<Self>> {
        let Some(Stat { start, .. }) = live(pid)? else { return Ok(None) };
        Ok(Some(Self { pid, start, boot: boot()? }))
    }

    pub fn of_this_boot(&self) -> io::Result<bool> {
        Ok(boot()? == self.boot)
    }

    /// A process that cannot be looked at is an error, never a dead one.
    pub fn is_alive(&self) -> io::Result<bool> {
        let same = |stat: Stat| stat.start == self.start;
        Ok(self.of_this_boot()? && live(self.pid)?.is_some_and(same))
    }

    /// A handle that can be waited on and signalled; nothing when the process has ended.
    pub fn open(&self) -> io::Result<Option<OwnedFd>> {
        if !self.is_alive()? {
            return Ok(None);
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let Some(handle) = opened(pidfd_open(pid, PidfdFlags::empty()))? else { return Ok(None) };
        // Alive after opening: so the handle is of this process, not of a successor.
        Ok(self.is_alive()?.then_some(handle))
    }
}

fn opened(handle: Result<OwnedFd, Errno>) -> io::Result<Option<OwnedFd>> {
    match handle {
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[derive(Debug, PartialEq)]
struct Stat {
    session: u32,
    start: u64,
}

fn live(pid: u32) -> io::Result<Option<Stat>> {
    stat_of_live(fs::read_to_string(format!("/proc/{pid}/stat")))
}

/// What the kernel says of a process that is not just waiting to be buried.
fn stat_of_live(said: io::Result<String>) -> io::Result<Option<Stat>> {
    let said = match said {
        Ok(said) => said,
        // The second one while it is being read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (state, stat) = parse(&said).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(stat).filter(|_| !matches!(state, "Z" | "X")))
}

/// The name before the last parenthesis may hold anything. After it: state is field 3, session 6, start 22.
fn parse(stat: &str) -> Option<(&str, Stat)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let session = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some((state, Stat { session, start }))
}

/// The processes of a session, in this process's namespace, that have not ended.
pub(super) fn members(session: u32) -> io::Result<Vec<u32>> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if live(pid)?.is_some_and(|stat| stat.session == session) {
            members.push(pid);
        }
    }
    Ok(members)
}

fn boot() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To believe a live process dead is to start another one beside it.
    #[test]
    fn only_the_kernel_says_that_a_process_has_ended() {
        let line =
            |state: &str| Ok(format!("7 (a) b) {state} 1 7 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1234 0 0\n"));
        let failed = |errno: Errno| Err(io::Error::from(errno));
        let table = [
            ("sleeps", line("S"), Ok(Some(Stat { session: 5, start: 1234 }))),
            ("stuck in the kernel", line("D"), Ok(Some(Stat { session: 5, start: 1234 }))),
            ("not buried", line("Z"), Ok(None)),
            ("gone", failed(Errno::NOENT), Ok(None)),
            ("gone while it was read", failed(Errno::SRCH), Ok(None)),
            ("no file left to look with", failed(Errno::MFILE), Err(Some(Errno::MFILE.raw_os_error()))),
            ("no memory left", failed(Errno::NOMEM), Err(Some(Errno::NOMEM.raw_os_error()))),
            ("not understood", Ok("7".into()), Err(None)),
        ];
        for (name, said, want) in table {
            assert_eq!(stat_of_live(said).map_err(|error| error.raw_os_error()), want, "{name}");
        }
        assert!(opened(Err(Errno::SRCH)).unwrap().is_none());
        assert_eq!(opened(Err(Errno::MFILE)).unwrap_err().raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }

    #[test]
    fn a_process_and_its_successor() {
        let this = Process::this().unwrap();
        assert!(this.is_alive().unwrap() && this.open().unwrap().is_some());
        let earlier = Process { start: this.start - 1, ..this.clone() };
        let before_boot = Process { boot: "another".into(), ..this };
        for other in [earlier, before_boot] {
            assert!(!other.is_alive().unwrap() && other.open().unwrap().is_none());
        }
    }
}
