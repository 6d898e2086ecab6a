//! The process that stays with a container: parent of its init, and keeper of its record.
//!
//! It has no runtime and no threads, and is not disturbed by the death of whoever started it. Its standard
//! output is a pipe to the starter, closed when the record says how the start went. What the program writes
//! comes through pipes, and goes into the log.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, PipeReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use super::attend::Attendant;
use super::cgroups;
use super::enter::exec_main;
use super::init::init_main;
use super::init::keep_to_itself;
use super::logs::Log;
use super::process::Process;
use super::record::{Record, Running};
use super::sealed;
use crate::containers::{Exit, SIGNALLED, START_ERROR};
use crate::kernel::KernelError;

/// Subcommand of the program that runs [`shim_main`].
pub(super) const SHIM_SUBCOMMAND: &str = "container-shim";
/// Subcommand of the program that runs [`init_main`].
const INIT_SUBCOMMAND: &str = "container-init";

/// Subcommand of the program that runs [`exec_main`].
pub(super) const EXEC_SUBCOMMAND: &str = "container-exec";

/// Exit code of a shim that found another one at work.
pub(super) const LOCKED: i32 = 75;
/// Exit code of a shim that could not even write down why it failed.
const HELPLESS: i32 = 70;

/// Exit code of a line that no part of this program writes.
const USAGE: i32 = 64;

/// Runs the subcommand that this program has given itself, if it has. Returns its exit code. Nothing else of the line is
/// read before: reading the flags of all programs takes as long as starting a container.
pub fn subcommand(argv: &[OsString]) -> Option<i32> {
    let [_, name, arguments @ ..] = argv else { return None };
    match (name.to_str()?, arguments) {
        (SHIM_SUBCOMMAND, [dir]) => Some(shim_main(Path::new(dir))),
        (INIT_SUBCOMMAND, [dir]) => Some(init_main(Path::new(dir))),
        (EXEC_SUBCOMMAND, [dir, caller, end, argv @ ..]) if end == "--" => {
            let argv: Option<Vec<String>> =
                argv.iter().map(|word| word.to_str().map(str::to_owned)).collect();
            let caller = caller.to_str().and_then(|caller| caller.parse().ok());
            let (Some(caller), Some(argv)) = (caller, argv) else { return Some(USAGE) };
            Some(exec_main(Path::new(dir), caller, &argv))
        }
        (SHIM_SUBCOMMAND | INIT_SUBCOMMAND | EXEC_SUBCOMMAND, _) => Some(USAGE),
        _ => None,
    }
}

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
        /// What the program left in the file of its message.
        message: Option<String>,
    },
}

/// Runs one container to its end, from its record directory. Returns the exit code of this process. Must be called before
/// the process opens anything.
fn shim_main(dir: &Path) -> i32 {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let record = Record::new(dir);
    match keep_to_itself(c"container-shim").and_then(|()| run(&record)) {
        Ok(code) => code,
        Err(error) => record.set_exit(&failed(format!("container shim: {error}"))).map_or(HELPLESS, |()| 0),
    }
}

fn run(record: &Record) -> io::Result<i32> {
    let Some(_lock) = record.lock()? else { return Ok(LOCKED) };
    // With the lock in hand no other shim lives, so an earlier one has had its say.
    if record.state()?.is_some() {
        return Ok(0);
    }
    let spec = record.spec()?.ok_or(io::ErrorKind::NotFound)?;
    let log = match Log::open(&spec.log) {
        Ok(log) => log,
        Err(error) => {
            let KernelError { what, why, .. } =
                KernelError::io(format!("open log `{}`", spec.log.display()), &error);
            return record.set_exit(&failed(format!("{what}: {why}"))).map(|()| 0);
        }
    };
    // Only the process identifiers: this shim stays in the host's mounts, its init leaves them.
    unshare(CloneFlags::CLONE_NEWPID)?;
    let (stdout, program_stdout) = io::pipe()?;
    let (stderr, program_stderr) = io::pipe()?;
    // Init hands these on to the program; its own standard output is for its reports.
    let mut init = Command::new(sealed::THIS)
        .arg0(std::env::args_os().next().unwrap_or_default())
        .arg(INIT_SUBCOMMAND)
        .arg(record.dir())
        .stdin(program_stdout)
        .stdout(Stdio::piped())
        .stderr(program_stderr)
        .spawn()?;
    let exit = attend(record, &mut init, [stdout, stderr], log);
    if exit.is_err() {
        // Whatever is written down next says that it has ended.
        init.kill()?;
        init.wait()?;
    }
    let oom_killed = cgroups::oom_killed(record.dir());
    record.set_exit(&Exit { oom_killed, ..exit? })?;
    Ok(0)
}

fn attend(
    record: &Record,
    init: &mut Child,
    [stdout, stderr]: [PipeReader; 2],
    log: Log,
) -> io::Result<Exit> {
    // Read now: an init that has ended has no start time any more.
    let process = Process::with_pid(init.id())?;
    let reports = init.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut attendant = Attendant::new(reports, stdout, stderr, log);
    let mut last = None;
    attendant.listen(|report| {
        if let (Message::Started, Some(init)) = (&report, process.clone()) {
            record.set_running(&Running { shim: Process::this()?, init, started_at: Timestamp::now() })?;
            release_starter()?;
        }
        last = Some(report);
        Ok(())
    })?;
    let status = init.wait()?;
    attendant.finish()?;
    Ok(match last {
        Some(Message::Failed(error)) => failed(error),
        Some(Message::Ended { code, signal, message }) => Exit { message, ..ended(code, signal) },
        // Killed with everything in it, before it could say a word.
        Some(Message::Started) | None => match status.signal() {
            Some(signal) => ended(SIGNALLED + signal, Some(signal)),
            None => failed(format!("container init ended with {status}")),
        },
    })
}

/// Closes the pipe to the starter: the record is complete.
fn release_starter() -> io::Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(null)?;
    Ok(())
}

fn failed(error: String) -> Exit {
    Exit {
        code: START_ERROR,
        signal: None,
        finished_at: Timestamp::now(),
        error: Some(error),
        oom_killed: false,
        message: None,
    }
}

fn ended(code: i32, signal: Option<i32>) -> Exit {
    Exit { code, signal, finished_at: Timestamp::now(), error: None, oom_killed: false, message: None }
}
