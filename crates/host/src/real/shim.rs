//! The process that stays with a container: parent of its init, and keeper of its record.
//!
//! It has no runtime and no threads, and is not disturbed by the death of whoever started it. Its standard
//! output is a pipe to the starter, closed when the record says how the start went.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use jiff::Timestamp;
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

pub use super::init::init_main;
use super::process::Process;
use super::record::{Record, Running, killed};
use crate::containers::Exit;

/// Subcommand of the program that runs [`shim_main`].
pub const SHIM_SUBCOMMAND: &str = "container-shim";
/// Subcommand of the program that runs [`init_main`].
pub const INIT_SUBCOMMAND: &str = "container-init";

/// Exit code of a shim that found another one at work.
pub(super) const LOCKED: i32 = 75;
/// Exit code of a shim that could not even write down why it failed.
const HELPLESS: i32 = 70;
/// Code of a container that never ran, as other runtimes report it.
const START_ERROR: i32 = 128;

/// What init tells its shim, one JSON line each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// The program runs.
    Started,
    /// It does not, and why.
    Failed(String),
    Ended {
        code: i32,
        signal: Option<i32>,
    },
}

/// Runs one container to its end, from its record directory. Returns the exit code of this process.
pub fn shim_main(dir: &Path) -> i32 {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let record = Record::new(dir);
    match run(&record) {
        Ok(code) => code,
        Err(error) => record.set_exit(&failed(format!("container shim: {error}"))).map_or(HELPLESS, |()| 0),
    }
}

fn run(record: &Record) -> io::Result<i32> {
    let Some(_lock) = record.lock()? else { return Ok(LOCKED) };
    // With the lock in hand no other shim lives, so an earlier one has had its say.
    if record.exit()?.is_some() {
        return Ok(0);
    }
    if record.running()?.is_some() {
        return record.set_exit(&killed()).map(|()| 0);
    }
    // Only the process identifiers: this shim stays in the host's mounts, its init leaves them.
    unshare(CloneFlags::CLONE_NEWPID)?;
    let mut init = Command::new(std::env::current_exe()?)
        .arg(INIT_SUBCOMMAND)
        .arg(record.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // Read now: an init that has ended has no start time any more.
    let process = Process::with_pid(init.id());
    let exit = attend(record, &mut init, process)?;
    record.set_exit(&exit)?;
    Ok(0)
}

fn attend(record: &Record, init: &mut Child, process: Option<Process>) -> io::Result<Exit> {
    let mut messages = BufReader::new(init.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let mut last = next(&mut messages)?;
    if let Some(Message::Started) = last {
        if let (Some(shim), Some(init)) = (Process::this(), process) {
            record.set_running(&Running { shim, init, started_at: Timestamp::now() })?;
            release_starter()?;
        }
        last = next(&mut messages)?;
    }
    let status = init.wait()?;
    Ok(match last {
        Some(Message::Failed(error)) => failed(error),
        Some(Message::Ended { code, signal }) => ended(code, signal),
        // Killed with everything in it, before it could say a word.
        Some(Message::Started) | None => match status.signal() {
            Some(signal) => ended(START_ERROR + signal, Some(signal)),
            None => failed(format!("container init ended with {status}")),
        },
    })
}

fn next(messages: &mut BufReader<ChildStdout>) -> io::Result<Option<Message>> {
    let mut line = String::new();
    match messages.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

/// Closes the pipe to the starter: the record is complete.
fn release_starter() -> io::Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(null)?;
    Ok(())
}

fn failed(error: String) -> Exit {
    Exit { code: START_ERROR, signal: None, finished_at: Timestamp::now(), error: Some(error) }
}

fn ended(code: i32, signal: Option<i32>) -> Exit {
    Exit { code, signal, finished_at: Timestamp::now(), error: None }
}
