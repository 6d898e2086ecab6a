//! A program in a container ends, with all that it started, when nobody waits for it any more.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Pid, Signal as Send, getppid, kill_process, set_parent_process_death_signal};

use super::process::members;

/// While a program is being started, signals are looked at only this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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

    /// Waits for the program to be started by another thread, which the container's files may block for ever. Nothing if
    /// the caller goes first.
    pub fn await_start<T>(&self, started: &Receiver<T>) -> io::Result<Option<T>> {
        loop {
            match started.recv_timeout(LOOK_EVERY) {
                Ok(program) => return Ok(Some(program)),
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(RecvTimeoutError::Timeout) if self.is_pending()? => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Whether a signal has come that says so.
    fn is_pending(&self) -> io::Result<bool> {
        let signals = SignalFd::with_flags(&self.signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        while let Some(signal) = signals.read_signal()? {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                return Ok(true);
            }
        }
        Ok(self.is_orphan())
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use nix::sys::signal::raise;

    use super::*;

    #[test]
    fn a_start_that_is_blocked_ends_with_its_caller() {
        // A thread of its own: signals stay blocked in it.
        let seen = std::thread::spawn(|| {
            let parent = getppid().unwrap().as_raw_pid();
            let gone = Gone::watch(parent.unsigned_abs()).unwrap();
            let (send, started) = mpsc::channel();
            send.send(7).unwrap();
            raise(Signal::SIGCHLD).unwrap();
            let first = gone.await_start(&started).unwrap();
            raise(Signal::SIGTERM).unwrap();
            (first, gone.await_start(&started).unwrap())
        });
        assert_eq!(seen.join().unwrap(), (Some(7), None));
    }
}
