//! Runs a program in a container: the process that is its parent.
//!
//! That process stays outside, where nothing in the container can see it. One thread of it goes in: it enters the
//! container's namespaces and control groups, becomes its user, and only then starts the program. So nothing that is
//! born inside ever holds more than the program may have, not even for the moment before it is the program.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;

use nix::libc;
use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::Mode;

use super::gone::Gone;
use super::process::Process;
use super::record::Record;
use super::{cgroups, identity, init, raw};
use crate::containers::SIGNALLED;

/// As shells report a program that cannot be run, and one that is not there.
const CANNOT_RUN: i32 = 126;
const NOT_THERE: i32 = 127;
/// What a program may expect of its terminal.
const TERM: &str = "xterm";

/// Why a program does not run, and the exit code that says so.
struct Complaint {
    text: String,
    code: i32,
}

impl From<String> for Complaint {
    fn from(text: String) -> Self {
        Self { text, code: CANNOT_RUN }
    }
}

impl From<io::Error> for Complaint {
    fn from(error: io::Error) -> Self {
        init::text("enter the container", &error).into()
    }
}

/// Runs a program in the container with this record directory, on behalf of the process `caller`. Returns the
/// program's exit code. Must be called before the process opens anything.
pub fn exec_main(dir: &Path, caller: u32, argv: &[String]) -> i32 {
    match run(dir, caller, argv) {
        Ok(status) => status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default()),
        Err(Complaint { text, code }) => {
            let _ = writeln!(io::stderr(), "{text}");
            code
        }
    }
}

fn run(dir: &Path, caller: u32, argv: &[String]) -> Result<ExitStatus, Complaint> {
    init::keep_to_itself(c"container-exec")?;
    let gone = Gone::watch(caller)?;
    let (send, started) = mpsc::channel();
    let (done, wait) = mpsc::channel::<()>();
    let (dir, argv) = (dir.to_owned(), argv.to_owned());
    // Not joined: the container's files may block it for ever. It ends with this process, and the program with it.
    thread::spawn(move || {
        let sent = send.send(start(&dir, &argv));
        // Nothing is ever sent: the other side is dropped.
        sent.is_ok().then(|| wait.recv())
    });
    let abandoned = || Complaint::from("nobody waits for the program any more".to_owned());
    let program = gone.await_start(&started)?.ok_or_else(abandoned)??;
    let status = gone.attend(program)?;
    drop(done);
    Ok(status)
}

/// Goes in and starts the program. Nothing of the host is open any more when it is born.
fn start(dir: &Path, argv: &[String]) -> Result<Child, Complaint> {
    let spec = Record::new(dir).spec()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let container = alive(dir)?;
    let groups = cgroups::entrances(dir)?;
    let parts = [
        // Not for this thread, but for what it starts.
        (namespace(&container, "pid")?, CloneFlags::CLONE_NEWPID),
        (namespace(&container, "ipc")?, CloneFlags::CLONE_NEWIPC),
        (namespace(&container, "uts")?, CloneFlags::CLONE_NEWUTS),
        // The last one: it takes the root away that the others are found under.
        (namespace(&container, "mnt")?, CloneFlags::CLONE_NEWNS),
    ];
    groups.enter()?;
    // A root and a working directory of this thread's own.
    unshare(CloneFlags::CLONE_FS).map_err(io::Error::from)?;
    for (file, kind) in parts {
        setns(file, kind).map_err(io::Error::from)?;
    }
    rustix::process::umask(Mode::from_raw_mode(init::UMASK));
    let mut command = init::program(&spec, argv)?;
    let on_terminal = rustix::termios::isatty(io::stdin());
    if on_terminal {
        command.env("TERM", TERM);
    }
    raw::lead_session(&mut command, on_terminal);
    identity::give(io::stdin(), spec.security.uid)?;
    identity::give(io::stdout(), spec.security.uid)?;
    identity::give(io::stderr(), spec.security.uid)?;
    identity::confine(&spec.security)?;
    identity::assume(&spec.security)?;
    spawn(command, argv)
}

fn spawn(mut command: Command, argv: &[String]) -> Result<Child, Complaint> {
    command.spawn().map_err(|error| {
        let name = argv.first().map(String::as_str).unwrap_or_default();
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_THERE } else { CANNOT_RUN };
        Complaint { text: init::text(&format!("exec {name:?}"), &error), code }
    })
}

/// The container's first process.
fn alive(dir: &Path) -> io::Result<Process> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let init = Record::new(dir).running()?.ok_or_else(gone)?.init;
    if init.is_alive()? { Ok(init) } else { Err(gone()) }
}

fn namespace(of: &Process, name: &str) -> io::Result<File> {
    let file = File::open(format!("/proc/{}/ns/{name}", of.pid))?;
    // Alive after opening: so it is this container's, not that of a successor with the same number.
    if of.is_alive()? { Ok(file) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}
