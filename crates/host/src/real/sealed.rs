//! Starts a program from a read-only view of its file.
//!
//! A process inside a container is visible there as `/proc/<pid>/exe`. Root in the container that opens this for writing
//! writes the file on the host, and so decides what the host runs next. Behind a read-only mount of its own the file
//! cannot be opened for writing, by no name that leads through that process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::raw;

/// The program that runs now, sealed if this process was started so.
pub(super) const THIS: &str = "/proc/self/exe";

/// A program, mounted read-only once and for good: to let go of a mount makes the kernel wait for all processors.
pub(super) struct Sealed {
    program: PathBuf,
    mount: OnceLock<OwnedFd>,
}

impl Sealed {
    pub fn new(program: PathBuf) -> Self {
        Self { program, mount: OnceLock::new() }
    }

    /// Always the file that was there the first time, also when another one has taken its name since.
    pub fn command(&self) -> io::Result<Command> {
        let mount = match self.mount.get() {
            Some(mount) => mount,
            None => {
                let mount = self.mount()?;
                self.mount.get_or_init(|| mount)
            }
        };
        let mut command = Command::new(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        command.arg0(&self.program);
        Ok(command)
    }

    fn mount(&self) -> io::Result<OwnedFd> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(CWD, &self.program, flags)?;
        raw::set_read_only(&mount, false)?;
        Ok(mount)
    }
}
