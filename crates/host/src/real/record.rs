//! What is written down about a container, in a directory of its own:
//!
//! | file | written by | says |
//! |---|---|---|
//! | `spec.json` | whoever starts it | what to run |
//! | `lock` | its shim | locked while the shim lives: there is never a second one |
//! | `init.lock` | its init | locked while init sets up what only the record leads to: control groups |
//! | `running.json` | its shim | the program runs, and in which processes |
//! | `evicted` | whoever is about to end it | its end is not the workload's doing; durable |
//! | `exit.json` | its shim | it ended; durable, and with room from the beginning |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cgroups;
use super::process::Process;
use super::replace::sync_parent;
use crate::containers::{ContainerSpec, Exit, SIGNALLED, State};

/// Environments may hold secrets.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

const SIGKILL: i32 = 9;
/// Code of a container that has ended in a way that is not known, as upstream's kubelet reports it.
const UNKNOWN_END: i32 = SIGNALLED + SIGKILL;

/// Of a container whose processes are not known.
const UNKNOWN_PID: u32 = 0;

const SPEC: &str = "spec.json";
const LOCK: &str = "lock";
const INIT_LOCK: &str = "init.lock";
const RUNNING: &str = "running.json";
const EVICTED: &str = "evicted";
const EXIT: &str = "exit.json";
/// Every file of a record; each may also stand there under its unfinished name.
const FILES: [&str; 6] = [SPEC, LOCK, INIT_LOCK, RUNNING, EVICTED, EXIT];
const UNFINISHED: &str = ".new";
/// Room for it: one block.
const EXIT_SIZE: usize = 4 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Running {
    pub shim: Process,
    pub init: Process,
    pub started_at: Timestamp,
}

impl Running {
    /// A handle on whoever is left of the container; its end is worth another look. An init that outlives its shim
    /// has been killed with it, but may be stuck in the kernel, and its volumes are in use until it is gone.
    pub fn open(&self) -> io::Result<Option<OwnedFd>> {
        Ok(match self.shim.open()? {
            Some(shim) => Some(shim),
            None => self.init.open()?,
        })
    }

    fn is_alive(&self) -> io::Result<bool> {
        Ok(self.shim.is_alive()? || self.init.is_alive()?)
    }
}

/// Whether a write must survive a power cut. What only describes processes need not: they do not either.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    Yes,
    No,
}

/// What a look at a record tells.
#[derive(Debug)]
pub(super) enum Look {
    Says(Said),
    /// Nothing ran, and nothing is left of it.
    Gone,
    /// It may yet say something.
    Held(Holder),
}

#[derive(Debug)]
pub(super) struct Said {
    pub state: State,
    pub evicted: bool,
    pub earlier_boot: bool,
}

/// Who has the locks of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Shim,
    /// Without its shim it never runs the program, but it uses the container's volumes until it is gone.
    Init,
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
        self.write(SPEC, spec, Durable::No)?;
        self.reserve().map(|()| true)
    }

    /// Takes the room for the last word, and for the mark of an eviction, now, when a container that finds none does not
    /// start.
    fn reserve(&self) -> io::Result<()> {
        drop(self.open_unfinished(EVICTED)?);
        self.open_unfinished(EXIT)?.write_all(&[b' '; EXIT_SIZE])
    }

    pub fn spec(&self) -> io::Result<Option<ContainerSpec>> {
        self.read_fleeting(SPEC)
    }

    pub fn running(&self) -> io::Result<Option<Running>> {
        self.read_fleeting(RUNNING)
    }

    pub fn set_running(&self, running: &Running) -> io::Result<()> {
        self.write(RUNNING, running, Durable::No)
    }

    /// One that cannot be read is as good as none: the processes tell whether the container runs.
    pub fn exit(&self) -> io::Result<Option<Exit>> {
        self.read_fleeting(EXIT)
    }

    /// The end of a container whose record of it cannot be read, and of which no process is known: it has ended, and that
    /// is all. To fail here would keep everything from starting that lists containers.
    fn unreadable_exit(&self) -> io::Result<Option<Exit>> {
        let Some(_) = self.bytes(EXIT)? else { return Ok(None) };
        let file = self.dir.join(EXIT);
        let written = Timestamp::try_from(fs::metadata(&file)?.modified()?);
        let why = format!("`{}` cannot be read", file.display());
        Ok(Some(unknown_end(written.unwrap_or(Timestamp::UNIX_EPOCH), why)))
    }

    /// What counts for a record that does not tell, because it cannot be read or its start takes too long. It may run,
    /// and its volumes stay, unless no process can be at it.
    pub fn presumed(&self, why: &io::Error) -> State {
        let since = fs::metadata(&self.dir).and_then(|found| found.modified()).ok();
        let since = since.and_then(|since| Timestamp::try_from(since).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
        match self.holder() {
            // The process that had the lock may have had its say since the record was looked at.
            Ok(None) => match self.state() {
                Ok(Some(state)) => state,
                Ok(None) | Err(_) => exited(None, unknown_end(since, why.to_string())),
            },
            _ => State::Running { pid: UNKNOWN_PID, started_at: since },
        }
    }

    pub fn set_exit(&self, exit: &Exit) -> io::Result<()> {
        self.write(EXIT, exit, Durable::Yes)
    }

    pub fn evicted(&self) -> io::Result<bool> {
        self.dir.join(EVICTED).try_exists()
    }

    /// That it is there says all. It was made with the record, and only gets its name, for which a full disk has room.
    pub fn set_evicted(&self) -> io::Result<()> {
        let path = self.dir.join(EVICTED);
        match fs::rename(self.unfinished(EVICTED), &path) {
            // Marked already, or a record of an earlier version.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false).mode(FILE_MODE).open(&path)?;
            }
            renamed => renamed?,
        }
        sync_parent(&path)
    }

    /// Nothing for a container that never got as far as running or failing.
    pub fn state(&self) -> io::Result<Option<State>> {
        let running = self.running()?;
        if let Some(exit) = self.exit()? {
            return Ok(Some(exited(running.as_ref(), exit)));
        }
        let Some(running) = running else {
            return Ok(self.unreadable_exit()?.map(|exit| exited(None, exit)));
        };
        if running.is_alive()? {
            return Ok(Some(State::Running { pid: running.init.pid, started_at: running.started_at }));
        }
        // The shim is gone for good now. Did it write its last word in the meantime?
        if self.exit()?.is_none() {
            let exit = killed(cgroups::oom_killed(&self.dir));
            if let Err(error) = self.set_exit(&exit) {
                // It has ended all the same, and what it used can be freed, which may be what is wanting.
                tracing::warn!(record = %self.dir.display(), %error, "cannot write down how a container ended");
                return Ok(Some(exited(Some(&running), exit)));
            }
        }
        Ok(self.exit()?.map(|exit| exited(Some(&running), exit)))
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE).open(self.dir.join(name))
    }

    /// The lock of an init that is setting up; waits while another one has it. An init outlives its shim for a moment:
    /// without this, what it still makes then would be left after the record is gone.
    pub fn lock_init(&self) -> io::Result<File> {
        let file = self.lock_file(INIT_LOCK)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// The lock of a container's one shim; nothing while another has it, or while the init of an earlier one is
    /// setting up.
    pub fn lock(&self) -> io::Result<Option<File>> {
        self.try_lock().map(Result::ok)
    }

    /// Who is at it; nothing when no process is.
    pub fn holder(&self) -> io::Result<Option<Holder>> {
        self.refuse_foreign()?;
        self.try_lock().map(Result::err)
    }

    fn try_lock(&self) -> io::Result<Result<File, Holder>> {
        let path = self.dir.join(LOCK);
        let file = self.lock_file(LOCK)?;
        for (lock, holder) in [(&file, Holder::Shim), (&self.lock_file(INIT_LOCK)?, Holder::Init)] {
            match flock(lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(holder)),
                Err(errno) => return Err(errno.into()),
            }
        }
        // Between the two steps the record may have been removed, and another one made in its place, whose lock is
        // not this one.
        let here = match fs::metadata(&path) {
            Ok(here) => here,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Holder::Shim)),
            Err(error) => return Err(error),
        };
        let own = file.metadata()?;
        let same = (here.dev(), here.ino()) == (own.dev(), own.ino());
        Ok(if same { Ok(file) } else { Err(Holder::Shim) })
    }

    /// Blocks until neither a shim nor an init is at it.
    pub fn until_free(&self) -> io::Result<()> {
        for name in [LOCK, INIT_LOCK] {
            let file = match OpenOptions::new().read(true).open(self.dir.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            flock(&file, FlockOperation::LockShared)?;
        }
        Ok(())
    }

    /// What it says; one that says nothing goes, unless a process is at it.
    pub fn look(&self) -> io::Result<Look> {
        if let Some(state) = self.state()? {
            return self.says(state).map(Look::Says);
        }
        let _lock = match self.refuse_foreign().and_then(|()| self.try_lock()) {
            Ok(Ok(lock)) => lock,
            Ok(Err(holder)) => return Ok(Look::Held(holder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Look::Gone),
            Err(error) => return Err(error),
        };
        // Its shim may have ended since it was last looked at.
        if let Some(state) = self.state()? {
            return self.says(state).map(Look::Says);
        }
        self.remove().map(|()| Look::Gone)
    }

    fn says(&self, state: State) -> io::Result<Said> {
        let earlier_boot = matches!(state, State::Exited { .. }) && self.earlier_boot()?;
        Ok(Said { state, evicted: self.evicted()?, earlier_boot })
    }

    /// Of a container that has ended. One that has run and does not tell in which processes lost that in a power cut.
    fn earlier_boot(&self) -> io::Result<bool> {
        match self.running()? {
            Some(running) => Ok(!running.init.of_this_boot()?),
            None => Ok(true),
        }
    }

    /// Removes a record that says nothing, unless a process is at it. False when it may yet say something.
    pub fn discard(&self) -> io::Result<bool> {
        Ok(matches!(self.look()?, Look::Gone))
    }

    /// Removes the directory and the files of a record in it. Missing is success. The control groups go first: without
    /// the record nothing leads to them.
    pub fn remove(&self) -> io::Result<()> {
        let Some(files) = self.files()? else { return Ok(()) };
        cgroups::remove(&self.dir)?;
        for file in files {
            fs::remove_file(file)?;
        }
        fs::remove_dir(&self.dir)
    }

    pub fn is_record(&self) -> bool {
        self.refuse_foreign().is_ok()
    }

    /// A directory with anything else in it was made by another program, or used by a person.
    fn refuse_foreign(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.dir)?.is_dir() {
            true => self.files().map(drop),
            false => Err(io::Error::other(format!("`{}` is no directory", self.dir.display()))),
        }
    }

    /// In the order in which they may go: a process that dies in between must not leave a container that seems to have
    /// run and has no end, nor one whose end seems to be its own. A file of another name is an error.
    fn files(&self) -> io::Result<Option<Vec<PathBuf>>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !FILES.contains(&name.strip_suffix(UNFINISHED).unwrap_or(&name)) {
                let file = entry.path();
                let why = format!("`{}` is no part of a container's record: move it away", file.display());
                return Err(io::Error::other(why));
            }
            files.push(entry.path());
        }
        files.sort_by_key(|file| [RUNNING, EXIT].iter().position(|name| file.ends_with(name)).unwrap_or(2));
        Ok(Some(files))
    }

    /// For files that promise nothing: a power cut may have left a part, and took along what it told of.
    fn read_fleeting<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let file = self.dir.join(name);
                tracing::warn!(file = %file.display(), %error, "part of a container's record is of no use");
                Ok(None)
            }
        }
    }

    fn bytes(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.dir.join(name)) {
            // A power cut can leave an empty file where nothing durable was promised.
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let file = self.dir.join(name);
                Err(io::Error::new(error.kind(), format!("read `{}`: {error}", file.display())))
            }
        }
    }

    fn write<T: Serialize>(&self, name: &str, value: &T, durable: Durable) -> io::Result<()> {
        let (path, bytes) = (self.dir.join(name), serde_json::to_vec(value)?);
        let mut file = self.open_unfinished(name)?;
        file.write_all(&bytes)?;
        file.set_len(bytes.len() as u64)?;
        if durable == Durable::Yes {
            file.sync_all()?;
        }
        fs::rename(self.unfinished(name), &path)?;
        if durable == Durable::Yes { sync_parent(&path) } else { Ok(()) }
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{UNFINISHED}"))
    }

    /// Keeps the room that it takes already.
    fn open_unfinished(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE).open(self.unfinished(name))
    }
}

fn unknown_end(finished_at: Timestamp, why: String) -> Exit {
    Exit { code: UNKNOWN_END, signal: None, finished_at, error: Some(why), oom_killed: false, message: None }
}

fn exited(running: Option<&Running>, exit: Exit) -> State {
    let started_at = running.map_or(exit.finished_at, |running| running.started_at);
    State::Exited { started_at, exit }
}

/// How a container ends whose shim was taken away: its init dies with the shim.
fn killed(oom_killed: bool) -> Exit {
    Exit {
        code: SIGNALLED + SIGKILL,
        signal: Some(SIGKILL),
        finished_at: Timestamp::now(),
        error: Some("container shim was killed".into()),
        oom_killed,
        message: None,
    }
}

#[cfg(test)]
pub(super) mod tests;
