//! The first process inside a container: builds its world, starts the program, and buries the dead.
//!
//! It stays process 1, because the kernel does not deliver SIGTERM to a process 1 that has no handler for it:
//! it waits for signals and passes them on. When it ends, the kernel ends everything else in the container.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::process::DumpableBehavior;

use super::record::Record;
use super::shim::Message;
use super::{cgroups, identity, inherited, message, raw, rootfs};
use crate::containers::{ContainerSpec, DEFAULT_PATH, SIGNALLED};
use crate::kernel::KernelError;

pub(super) const UMASK: u32 = 0o022;

/// Runs as process 1 of a container, from its record directory. Returns the exit code of this process. Must be called
/// before the process opens anything.
pub fn init_main(dir: &Path) -> i32 {
    let ended = match start(&Record::new(dir)) {
        Ok((child, file)) => supervise(&child).and_then(|ended| with_message(ended, file.as_ref())),
        Err(error) => return i32::from(tell(&Message::Failed(error)).is_err()),
    };
    match ended {
        Ok(message) => i32::from(tell(&message).is_err()),
        Err(error) => i32::from(tell(&Message::Failed(format!("container init: {error}"))).is_err()),
    }
}

/// Everything up to the running program. The error text is what a person reads about the failed start.
fn start(record: &Record) -> Result<(Child, Option<File>), String> {
    keep_to_itself(c"container-init").map_err(|e| text("keep init to itself", &e))?;
    // Without its shim nobody would record how this container ends.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| text("tie init to its shim", &e.into()))?;
    let lock = record.lock_init().map_err(|e| text("lock the container's record", &e))?;
    check_shim().map_err(|e| text("find the container's shim", &e))?;
    let spec = record.spec().map_err(|e| text("read the container's spec", &e))?;
    let spec = spec.ok_or("read the container's spec: no such file")?;
    spec.check()?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)
        .map_err(|e| text("create namespaces", &e.into()))?;
    rustix::system::sethostname(spec.hostname.as_bytes())
        .map_err(|e| text(&format!("set host name `{}`", spec.hostname), &e.into()))?;
    let failed = |KernelError { what, why, .. }| format!("{what}: {why}");
    let mut given = rootfs::take(record.dir(), &spec).map_err(failed)?;
    let message = given.message.take();
    let devices = given.devices.clone();
    // Both take their time in the kernel, and neither needs the other.
    let (root, groups) = thread::scope(|scope| {
        let groups = scope.spawn(|| cgroups::create(record.dir(), &spec, &devices));
        let root = rootfs::build(record.dir(), &spec, given).map_err(failed);
        (root, groups.join().unwrap_or_else(|_| Err("the thread that makes control groups has ended".into())))
    });
    let (root, groups) = (root?, groups?);
    rootfs::enter(&root).map_err(failed)?;
    // Not earlier: inside the groups no node of `/dev` can be made.
    groups.enter()?;
    // From here on the groups cannot be removed before init has ended.
    drop(lock);
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    let command = command(&spec)?;
    identity::confine(&spec.security)?;
    Ok((spawn(&spec, command)?, message))
}

/// Adds what the program left in the file of its message.
fn with_message(ended: Message, file: Option<&File>) -> io::Result<Message> {
    Ok(match (ended, file) {
        (Message::Ended { code, signal, .. }, Some(file)) => {
            Message::Ended { code, signal, message: message::read(file)? }
        }
        (ended, _) => ended,
    })
}

/// A shim that died before this process asked to die with it has closed its end of the pipe for reports.
fn check_shim() -> io::Result<()> {
    let stdout = io::stdout();
    let mut pipe = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut pipe, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    match pipe[0].revents().contains(PollFlags::ERR) {
        true => Err(Errno::EPIPE.into()),
        false => Ok(()),
    }
}

/// Of a process that others in a container can see: nothing that it was started with is open or in force, and neither its
/// memory nor its files can be looked at.
pub(super) fn keep_to_itself(name: &std::ffi::CStr) -> io::Result<()> {
    raw::close_inherited()?;
    inherited::reset()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(rustix::thread::set_name(name)?)
}

/// A program as the container's spec has it: its directory, and nothing of our environment.
pub(super) fn program(spec: &ContainerSpec, argv: &[String]) -> Result<Command, String> {
    let (program, args) = argv.split_first().ok_or("the container has no command")?;
    let dir = spec.working_dir.as_deref().unwrap_or(Path::new("/"));
    if !dir.is_dir() {
        return Err(format!("working directory `{}`: no such directory", dir.display()));
    }
    let mut command = Command::new(program);
    command.args(args).current_dir(dir);
    command.env_clear().env("PATH", DEFAULT_PATH).env("HOSTNAME", &spec.hostname);
    command.env("HOME", identity::home(spec.security.uid));
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

/// The container's own program, with the two pipes that the shim gave us in these places.
fn command(spec: &ContainerSpec) -> Result<Command, String> {
    let mut command = program(spec, &spec.argv)?;
    let pipe = |fd: BorrowedFd<'_>| {
        identity::give(fd, spec.security.uid)?;
        fd.try_clone_to_owned().map_err(|e| text("hand on a pipe", &e))
    };
    command.stdin(Stdio::null()).stdout(pipe(io::stdin().as_fd())?).stderr(pipe(io::stderr().as_fd())?);
    Ok(command)
}

/// Starts the program from a thread that becomes its user. By then init itself has no more to lose than the program, so
/// that nothing is gained by a program that can look into it.
fn spawn(spec: &ContainerSpec, mut command: Command) -> Result<Child, String> {
    SigSet::empty().thread_set_mask().map_err(|e| text("unblock signals", &e.into()))?;
    let (go, ready) = mpsc::channel();
    thread::scope(|scope| {
        let starter = scope.spawn(move || {
            ready.recv().map_err(|_| "init could not drop its capabilities")?;
            identity::assume(&spec.security)?;
            let name = spec.argv.first().map(String::as_str).unwrap_or_default();
            command.spawn().map_err(|e| text(&format!("exec {name:?}"), &e))
        });
        identity::keep_only_signals()?;
        go.send(()).map_err(|_| "the thread that starts the program has ended")?;
        starter.join().unwrap_or_else(|_| Err("the thread that starts the program has ended".into()))
    })
}

/// Waits for the program, passing signals on to it and burying orphans meanwhile.
fn supervise(child: &Child) -> io::Result<Message> {
    let child = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    // Blocked signals wait for us. Nobody sends any before hearing that the program runs.
    SigSet::all().thread_block()?;
    // Those without a name, which a program could send, wait for ever.
    let signals: SigSet = Signal::iterator().collect();
    tell(&Message::Started)?;
    loop {
        if let Some(ended) = bury(child)? {
            return Ok(ended);
        }
        match signals.wait()? {
            Signal::SIGCHLD => {}
            signal => match kill(child, signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => return Err(errno.into()),
            },
        }
    }
}

/// Buries all that have ended; says how the program ended if it is among them.
fn bury(child: Pid) -> io::Result<Option<Message>> {
    let mut ended = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                ended = Some(Message::Ended { code, signal: None, message: None });
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                let signal = signal as i32;
                ended =
                    Some(Message::Ended { code: SIGNALLED + signal, signal: Some(signal), message: None });
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(ended),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn tell(message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    io::stdout().flush()
}

pub(super) fn text(what: &str, error: &io::Error) -> String {
    let KernelError { what, why, .. } = KernelError::io(what, error);
    format!("{what}: {why}")
}
