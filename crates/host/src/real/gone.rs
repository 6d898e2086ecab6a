//! A program in a container ends, with all that it started, when nobody waits for it any more.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, ExitStatus};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, Signal as Send, getppid, kill_process, set_parent_process_death_signal};

use super::process::members;

/// Notices that the caller does not want the program any more (SIGTERM), or has died itself.
pub(super) struct Gone {
    signals: SigSet,
    caller: u32,
}

impl Gone {
    /// From now on signals wait until they are looked at.
    pub fn watch(caller: u32) -> io::Result<Self> {
        let signals = SigSet::all();
        signals.thread_block()?;
        set_parent_process_death_signal(Some(Send::HUP))?;
        let watch = Self { signals, caller };
        // It may have died before it was asked for.
        if watch.is_orphan() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(watch) }
    }

    /// Waits for the program, which leads a session, and ends that session if the caller goes first.
    pub fn attend(&self, mut program: Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = program.try_wait()? {
                return Ok(status);
            }
            let gone = match self.signals.wait()? {
                Signal::SIGTERM => true,
                // Comes with the end of one thread of the caller, too, which means nothing.
                Signal::SIGHUP => self.is_orphan(),
                _ => false,
            };
            if gone {
                // It may not lead its session yet. Its number stays taken until it is waited for.
                program.kill()?;
                end_session(program.id())?;
            }
        }
    }

    fn is_orphan(&self) -> bool {
        getppid().is_none_or(|parent| u32::try_from(parent.as_raw_pid()).ok() != Some(self.caller))
    }
}

/// Kills whoever belongs to a session. Those who made one of their own wanted to stay.
fn end_session(leader: u32) -> io::Result<()> {
    let mut killed = BTreeSet::new();
    loop {
        // Whoever is killed starts nobody else, so one look without a new face was the last.
        let news: Vec<u32> = members(leader)?.into_iter().filter(|pid| killed.insert(*pid)).collect();
        if news.is_empty() {
            return Ok(());
        }
        for pid in news.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            match kill_process(pid, Send::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
