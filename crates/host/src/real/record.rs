//! What is written down about a container, in a directory of its own:
//!
//! | file | written by | says |
//! |---|---|---|
//! | `spec.json` | whoever starts it | what to run |
//! | `lock` | its shim | locked while the shim lives: there is never a second one |
//! | `running.json` | its shim | the program runs, and in which processes |
//! | `exit.json` | its shim | it ended; durable |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process::Process;
use super::replace::sync_parent;
use crate::containers::{ContainerSpec, Exit, State};

/// Environments may hold secrets.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

const SIGKILL: i32 = 9;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Running {
    pub shim: Process,
    pub init: Process,
    pub started_at: Timestamp,
}

/// Whether a write must survive a power cut. What only describes processes need not: they do not either.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    Yes,
    No,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    dir: PathBuf,
}

impl Record {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the spec of a container that has no shim; false when it has one.
    pub fn prepare(&self, spec: &ContainerSpec) -> io::Result<bool> {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(&self.dir)?;
        let Some(_lock) = self.lock()? else { return Ok(false) };
        self.write("spec.json", spec, Durable::No).map(|()| true)
    }

    pub fn spec(&self) -> io::Result<Option<ContainerSpec>> {
        self.read("spec.json")
    }

    pub fn running(&self) -> io::Result<Option<Running>> {
        self.read("running.json")
    }

    pub fn set_running(&self, running: &Running) -> io::Result<()> {
        self.write("running.json", running, Durable::No)
    }

    pub fn exit(&self) -> io::Result<Option<Exit>> {
        self.read("exit.json")
    }

    pub fn set_exit(&self, exit: &Exit) -> io::Result<()> {
        self.write("exit.json", exit, Durable::Yes)
    }

    /// Nothing for a container that never got as far as running or failing.
    pub fn state(&self) -> io::Result<Option<State>> {
        let running = self.running()?;
        if let Some(exit) = self.exit()? {
            return Ok(Some(exited(running.as_ref(), exit)));
        }
        let Some(running) = running else { return Ok(None) };
        if running.shim.is_alive() {
            return Ok(Some(State::Running { pid: running.init.pid, started_at: running.started_at }));
        }
        // The shim is gone for good now. Did it write its last word in the meantime?
        if self.exit()?.is_none() {
            self.set_exit(&killed())?;
        }
        Ok(self.exit()?.map(|exit| exited(Some(&running), exit)))
    }

    /// The lock of a container's one shim; nothing while another has it.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let path = self.dir.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the directory and the plain files in it. Missing is success.
    pub fn remove(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            fs::remove_file(entry?.path())?;
        }
        fs::remove_dir(&self.dir)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.dir.join(name)) {
            // A power cut can leave an empty file where nothing durable was promised.
            Ok(bytes) if bytes.is_empty() => Ok(None),
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write<T: Serialize>(&self, name: &str, value: &T, durable: Durable) -> io::Result<()> {
        let (path, unfinished) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        if durable == Durable::Yes {
            file.sync_all()?;
        }
        fs::rename(&unfinished, &path)?;
        if durable == Durable::Yes { sync_parent(&path) } else { Ok(()) }
    }
}

fn exited(running: Option<&Running>, exit: Exit) -> State {
    let started_at = running.map_or(exit.finished_at, |running| running.started_at);
    State::Exited { started_at, exit }
}

/// How a container ends whose shim was taken away: its init dies with the shim.
pub(super) fn killed() -> Exit {
    Exit {
        code: 128 + SIGKILL,
        signal: Some(SIGKILL),
        finished_at: Timestamp::now(),
        error: Some("container shim was killed".into()),
    }
}
