//! Starts a program from a read-only view of its file.
//!
//! A process inside a container is visible there as `/proc/<pid>/exe`, and whoever opens that for writing as root writes
//! the file on the host: the next program that is run is theirs. Behind a read-only mount of its own the file cannot be
//! opened for writing, by no name that leads through that process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::raw;

/// The program that runs now, sealed if this process was started so.
pub(super) const THIS: &str = "/proc/self/exe";

/// A command, and the mount that has to be there until it is spawned.
pub(super) fn command(program: &Path) -> io::Result<(Command, OwnedFd)> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(CWD, program, flags)?;
    raw::set_read_only(&mount, false)?;
    let mut command = Command::new(format!("/proc/self/fd/{}", mount.as_raw_fd()));
    command.arg0(program);
    Ok((command, mount))
}
