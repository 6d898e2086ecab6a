//! Runs a program in a container: the two processes that go in.
//!
//! A process cannot change its own process namespace, only that of its children. So the first one turns to the
//! container's and waits for a second one, which is born there, enters the rest and becomes the program.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, setns};
use rustix::fs::Mode;

use super::gone::Gone;
use super::init;
use super::process::Process;
use super::record::Record;
use super::shim::ENTER_SUBCOMMAND;
use crate::containers::SIGNALLED;

/// As shells report a program that cannot be run, and one that is not there.
const CANNOT_RUN: i32 = 126;
const NOT_THERE: i32 = 127;
/// What a program may expect of its terminal.
const TERM: &str = "xterm";

/// Runs a program in the container with this record directory, on behalf of the process `caller`. Returns the
/// program's exit code.
pub fn exec_main(dir: &Path, caller: u32, argv: &[String]) -> i32 {
    let run = || {
        let gone = Gone::watch(caller)?;
        setns(namespace(&alive(dir)?, "pid")?, CloneFlags::CLONE_NEWPID)?;
        let mut second = Command::new(std::env::current_exe()?);
        gone.attend(second.arg(ENTER_SUBCOMMAND).arg(dir).arg("--").args(argv).spawn()?)
    };
    match run() {
        Ok(status) => status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default()),
        Err(error) => complain(&init::text("enter the container", &error), CANNOT_RUN),
    }
}

/// Becomes a program in the container with this record directory; returns only if that fails.
pub fn enter_main(dir: &Path, argv: &[String]) -> i32 {
    match enter(dir, argv) {
        Err(error) => complain(&init::text("enter the container", &error), CANNOT_RUN),
        Ok(Err(complaint)) => complain(&complaint, CANNOT_RUN),
        Ok(Ok(mut command)) => {
            let error = command.exec();
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_THERE } else { CANNOT_RUN };
            let name = argv.first().map(String::as_str).unwrap_or_default();
            complain(&init::text(&format!("exec {name:?}"), &error), code)
        }
    }
}

/// Everything up to the program itself. The inner error is a complaint about what was asked for.
fn enter(dir: &Path, argv: &[String]) -> io::Result<Result<Command, String>> {
    // The first process may be killed, and nobody else would end this one.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    rustix::process::setsid()?;
    let terminal = rustix::termios::isatty(io::stdin());
    if terminal {
        rustix::process::ioctl_tiocsctty(io::stdin())?;
    }
    let spec = Record::new(dir).spec()?.ok_or(io::ErrorKind::NotFound)?;
    let container = alive(dir)?;
    let parts = [
        (namespace(&container, "ipc")?, CloneFlags::CLONE_NEWIPC),
        (namespace(&container, "uts")?, CloneFlags::CLONE_NEWUTS),
        // The last one: it takes the root away that the others are found under.
        (namespace(&container, "mnt")?, CloneFlags::CLONE_NEWNS),
    ];
    for (file, kind) in parts {
        setns(file, kind)?;
    }
    init::drop_capabilities()?;
    rustix::process::umask(Mode::from_raw_mode(init::UMASK));
    Ok(init::program(&spec, argv).map(|mut command| {
        if terminal {
            command.env("TERM", TERM);
        }
        command
    }))
}

/// The container's first process.
fn alive(dir: &Path) -> io::Result<Process> {
    let gone = || io::Error::from_raw_os_error(nix::libc::ESRCH);
    let init = Record::new(dir).running()?.ok_or_else(gone)?.init;
    if init.is_alive()? { Ok(init) } else { Err(gone()) }
}

fn namespace(of: &Process, name: &str) -> io::Result<File> {
    let file = File::open(format!("/proc/{}/ns/{name}", of.pid))?;
    // Alive after opening: so it is this container's, not that of a successor with the same number.
    if of.is_alive()? { Ok(file) } else { Err(io::Error::from_raw_os_error(nix::libc::ESRCH)) }
}

fn complain(text: &str, code: i32) -> i32 {
    let _ = writeln!(io::stderr(), "{text}");
    code
}
