//! The first process inside a container: builds its world, starts the program, and buries the dead.
//!
//! It stays process 1, because the kernel does not deliver SIGTERM to a process 1 that has no handler for it:
//! it waits for signals and passes them on. When it ends, the kernel ends everything else in the container.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::fs::Mode;
use rustix::thread::CapabilitySet;

use super::record::Record;
use super::rootfs;
use super::shim::Message;
use crate::containers::{ContainerSpec, DEFAULT_PATH, SIGNALLED};
use crate::kernel::KernelError;

const DEFAULT_HOME: &str = "/root";
pub(super) const UMASK: u32 = 0o022;
/// One more than the highest capability any kernel knows today.
const CAPABILITIES: u32 = 64;

/// What a program may still do as root: the usual set of container runtimes, without making device nodes.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::AUDIT_WRITE);

/// Runs as process 1 of a container, from its record directory. Returns the exit code of this process.
pub fn init_main(dir: &Path) -> i32 {
    let ended = match start(&Record::new(dir)) {
        Ok(child) => supervise(&child),
        Err(error) => return i32::from(tell(&Message::Failed(error)).is_err()),
    };
    match ended {
        Ok(message) => i32::from(tell(&message).is_err()),
        Err(error) => i32::from(tell(&Message::Failed(format!("container init: {error}"))).is_err()),
    }
}

/// Everything up to the running program. The error text is what a person reads about the failed start.
fn start(record: &Record) -> Result<Child, String> {
    // Without its shim nobody would record how this container ends.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| text("tie init to its shim", &e.into()))?;
    let spec = record.spec().map_err(|e| text("read the container's spec", &e))?;
    let spec = spec.ok_or("read the container's spec: no such file")?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)
        .map_err(|e| text("create namespaces", &e.into()))?;
    rustix::system::sethostname(spec.hostname.as_bytes())
        .map_err(|e| text(&format!("set host name `{}`", spec.hostname), &e.into()))?;
    rootfs::build(record.dir(), &spec).map_err(|KernelError { what, why, .. }| format!("{what}: {why}"))?;
    drop_capabilities().map_err(|e| text("drop capabilities", &e))?;
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    spawn(&spec)
}

/// Takes from the bounding set, which limits what the program gets, but leaves init its own.
pub(super) fn drop_capabilities() -> io::Result<()> {
    for bit in 0..CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if KEPT.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Unknown to this kernel.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
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
    command.env_clear().env("PATH", DEFAULT_PATH).env("HOME", DEFAULT_HOME).env("HOSTNAME", &spec.hostname);
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

fn spawn(spec: &ContainerSpec) -> Result<Child, String> {
    let mut command = program(spec, &spec.argv)?;
    // The shim gave us the program's two pipes in these places.
    let pipe = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|e| text("hand on a pipe", &e));
    command.stdin(Stdio::null()).stdout(pipe(io::stdin().as_fd())?).stderr(pipe(io::stderr().as_fd())?);
    SigSet::empty().thread_set_mask().map_err(|e| text("unblock signals", &e.into()))?;
    let name = spec.argv.first().map(String::as_str).unwrap_or_default();
    command.spawn().map_err(|e| text(&format!("exec {name:?}"), &e))
}

/// Waits for the program, passing signals on to it and burying orphans meanwhile.
fn supervise(child: &Child) -> io::Result<Message> {
    let child = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let signals = SigSet::all();
    // Blocked signals wait for us. Nobody sends any before hearing that the program runs.
    signals.thread_block()?;
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
                ended = Some(Message::Ended { code, signal: None });
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                let signal = signal as i32;
                ended = Some(Message::Ended { code: SIGNALLED + signal, signal: Some(signal) });
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
