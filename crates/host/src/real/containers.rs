//! Containers, started through a shim that stays with them, so that they outlive this process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::libc;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::record::{Holder, Look, Record, Said};
use super::sealed::Sealed;
use super::shim::{LOCKED, SHIM_SUBCOMMAND};
use super::unreadable::Unreadable;
use super::{blocking, cgroups, exec, raw};
use crate::containers::{ContainerSpec, Containers, ExecSpec, Exit, Found, Session, State};
use crate::kernel::{KernelError, Result};

/// A shim of an earlier life of this process may still be setting up. Looked at again after this, for as long as
/// `START_PATIENCE`.
const START_PAUSE: Duration = Duration::from_millis(10);
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The same for an init without a shim, which was killed and is gone in a moment unless it is stuck in the kernel.
const INIT_PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct RealContainers {
    dir: PathBuf,
    shim: Sealed,
    /// One start at a time for each id.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// That the machine has no control groups is said once.
    ungrouped: Once,
    /// What containers must not see because other users may not.
    unreadable: Unreadable,
}

impl RealContainers {
    pub fn new(state_dir: &Path, shim: PathBuf) -> Self {
        Self {
            dir: state_dir.join("containers"),
            shim: Sealed::new(shim),
            turns: Mutex::default(),
            ungrouped: Once::new(),
            unreadable: Unreadable::of_process(),
        }
    }

    fn record(&self, id: &str) -> Result<Record> {
        let name = id.replace('/', "_");
        if name.is_empty() || name.starts_with('.') || name.contains('\0') || id.contains('_') {
            return Err(KernelError::other(format!("find container `{id}`"), "this is no container id"));
        }
        Ok(Record::new(self.dir.join(name)))
    }

    fn turn(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(id.into()).or_default().clone()
    }

    /// What each record says when it is not being started any more. One that says nothing then goes: nothing ever ran.
    /// One that cannot be read, or takes too long, holds up no other.
    async fn settled(&self, mut ids: BTreeSet<String>) -> Vec<Found> {
        let (mut found, begun) = (BTreeMap::new(), Instant::now());
        while !ids.is_empty() {
            for id in std::mem::take(&mut ids) {
                match self.look(&id).await {
                    Ok(Look::Says(Said { state, evicted, earlier_boot })) => {
                        found.insert(id.clone(), Found { id, state, evicted, earlier_boot });
                    }
                    Ok(Look::Gone) => {}
                    Ok(Look::Held(holder)) if begun.elapsed() < patience(holder) => drop(ids.insert(id)),
                    Ok(Look::Held(_)) => {
                        let why = KernelError::other("set it up", "its shim or its init is stuck");
                        found.extend(self.presumed(id, &why).await);
                    }
                    Err(why) => found.extend(self.presumed(id, &why).await),
                }
            }
            if !ids.is_empty() {
                tokio::time::sleep(START_PAUSE).await;
            }
        }
        found.into_values().collect()
    }

    async fn look(&self, id: &str) -> Result<Look> {
        let record = self.record(id)?;
        let looked = blocking(move || record.look()).await;
        looked.map_err(|e| KernelError::io(format!("look at container `{id}`"), &e))
    }

    /// Nothing for a directory that is no record.
    async fn presumed(&self, id: String, why: &KernelError) -> Option<(String, Found)> {
        let record = self.record(&id).ok()?;
        tracing::error!(record = %record.dir().display(), error = %why, "record of a container does not tell its state");
        let why = io::Error::other(why.to_string());
        let state = blocking(move || Ok(record.is_record().then(|| record.presumed(&why)))).await.ok()??;
        Some((id.clone(), Found { id, state, evicted: false, earlier_boot: false }))
    }

    /// The process that has the locks of a record that says nothing.
    async fn holder(&self, what: &str, record: &Record) -> Result<Option<Holder>> {
        let record = record.clone();
        let held = blocking(move || match record.holder() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            held => held,
        });
        held.await.map_err(|e| KernelError::io(what, &e))
    }

    async fn read_state(&self, what: &str, record: &Record) -> Result<Option<State>> {
        let record = record.clone();
        blocking(move || record.state()).await.map_err(|e| KernelError::io(what, &e))
    }

    /// Writes the record and runs a shim until it has written down how the start went. The shim goes on.
    async fn run_shim(&self, record: &Record, spec: &ContainerSpec) -> io::Result<Attempt> {
        let (prepared, mut spec, unreadable) = (record.clone(), spec.clone(), self.unreadable.clone());
        let prepare = move || {
            spec.hidden.extend(unreadable.paths()?);
            prepared.prepare(&spec)
        };
        if !blocking(prepare).await? {
            return Ok(Attempt::Busy);
        }
        self.ungrouped.call_once(|| {
            if !cgroups::available() {
                tracing::warn!("no writable control groups: containers have no limits, those that ask for any are refused");
            }
        });
        let mut command = Command::from(self.shim.command()?);
        // The environment of this process may hold secrets, and is nobody's business in a container.
        command.arg(SHIM_SUBCOMMAND).arg(record.dir()).current_dir("/").env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(false);
        let mut shim = command.spawn()?;
        if let Some(mut stdout) = shim.stdout.take() {
            stdout.read_to_end(&mut Vec::new()).await?;
        }
        Ok(Attempt::Shim(Box::new(shim)))
    }
}

/// How a try to start a container went.
enum Attempt {
    /// Another shim, of an earlier life of this process, is at it.
    Busy,
    /// The record tells, or else the end of this shim.
    Shim(Box<Child>),
}

#[async_trait]
impl Containers for RealContainers {
    async fn start(&self, spec: &ContainerSpec) -> Result<State> {
        let what = format!("start container `{}`", spec.id);
        let record = self.record(&spec.id)?;
        let turn = self.turn(&spec.id);
        let _turn = turn.lock().await;
        let begun = Instant::now();
        while begun.elapsed() < START_PATIENCE {
            if let Some(state) = self.read_state(&what, &record).await? {
                return Ok(state);
            }
            let attempt = self.run_shim(&record, spec).await.map_err(|e| KernelError::io(&what, &e))?;
            if let Some(state) = self.read_state(&what, &record).await? {
                return Ok(state);
            }
            if let Attempt::Shim(mut shim) = attempt {
                let status = shim.wait().await.map_err(|e| KernelError::io(&what, &e))?;
                if status.code() != Some(LOCKED) && self.read_state(&what, &record).await?.is_none() {
                    return Err(KernelError::other(what, format!("its shim ended with {status}")));
                }
            }
            tokio::time::sleep(START_PAUSE).await;
        }
        Err(KernelError::errno(what, libc::ETIMEDOUT))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        let dir = self.dir.clone();
        let ids = blocking(move || ids(&dir)).await.map_err(|e| KernelError::io("list containers", &e))?;
        Ok(self.settled(ids).await)
    }

    async fn state(&self, id: &str) -> Result<Option<State>> {
        let (what, record) = (format!("look at container `{id}`"), self.record(id)?);
        match self.read_state(&what, &record).await? {
            None => match self.holder(&what, &record).await? {
                // Not known to run, but something of it does.
                Some(_) => Ok(Some(record.presumed(&io::ErrorKind::WouldBlock.into()))),
                None => self.read_state(&what, &record).await,
            },
            state => Ok(state),
        }
    }

    async fn wait(&self, id: &str) -> Result<Exit> {
        let what = format!("wait for container `{id}`");
        let record = self.record(id)?;
        loop {
            match self.read_state(&what, &record).await? {
                None => match self.holder(&what, &record).await? {
                    None => match self.read_state(&what, &record).await? {
                        None => return Err(KernelError::errno(what, libc::ENOENT)),
                        Some(_) => continue,
                    },
                    Some(_) => {
                        let held = record.clone();
                        let free = on_own_thread(move || held.until_free());
                        free.await.map_err(|e| KernelError::io(&what, &e))?;
                        continue;
                    }
                },
                Some(State::Exited { exit, .. }) => return Ok(exit),
                Some(State::Running { .. }) => {}
            }
            let handle = record.running().and_then(|running| match running {
                Some(running) => running.open(),
                None => Ok(None),
            });
            if let Some(process) = handle.map_err(|e| KernelError::io(&what, &e))? {
                raw::process_end(process).await.map_err(|e| KernelError::io(&what, &e))?;
            }
        }
    }

    async fn mark_evicted(&self, id: &str) -> Result<()> {
        let what = format!("mark container `{id}` as evicted");
        let record = self.record(id)?;
        blocking(move || record.set_evicted()).await.map_err(|e| KernelError::io(what, &e))
    }

    async fn signal(&self, id: &str, signal: i32) -> Result<()> {
        let record = self.record(id)?;
        let what = format!(
            "send signal {signal} to container `{id}` (`ls -la {}` shows its record)",
            record.dir().display()
        );
        let name = Signal::from_named_raw(signal).ok_or_else(|| KernelError::errno(&what, libc::EINVAL))?;
        match self.read_state(&what, &record).await? {
            Some(State::Running { .. }) => {}
            Some(State::Exited { .. }) => return Ok(()),
            None => match self.holder(&what, &record).await? {
                // It gets the signal when it runs.
                Some(_) => return Err(KernelError::errno(what, libc::EBUSY)),
                None => return Ok(()),
            },
        }
        let handle = record.running().and_then(|running| match running {
            Some(running) => running.init.open(),
            None => Ok(None),
        });
        let Some(init) = handle.map_err(|e| KernelError::io(&what, &e))? else { return Ok(()) };
        match pidfd_send_signal(init, name) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(KernelError::errno(what, errno.raw_os_error())),
        }
    }

    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Session> {
        let what = format!("run {:?} in container `{id}`", spec.argv.first().map_or("", String::as_str));
        let record = self.record(id)?;
        match self.read_state(&what, &record).await? {
            Some(State::Running { .. }) => {}
            Some(State::Exited { .. }) | None => return Err(KernelError::errno(what, libc::ESRCH)),
        }
        exec::start(&self.shim, record.dir(), spec).map_err(|e| KernelError::io(what, &e))
    }

    async fn remove(&self, id: &str) -> Result<()> {
        let record = self.record(id)?;
        let what = format!("remove container `{id}` (`ls -la {}` shows its record)", record.dir().display());
        let state = self.read_state(&what, &record).await?;
        let removed = blocking(move || match state {
            Some(State::Running { .. }) => Err(rustix::io::Errno::BUSY.into()),
            Some(State::Exited { .. }) => record.remove(),
            // Its shim may be about to start it.
            None if record.discard()? => Ok(()),
            None => Err(rustix::io::Errno::BUSY.into()),
        });
        removed.await.map_err(|e| KernelError::io(what, &e))
    }
}

/// For a wait that may never end: the end of the process does not wait for this thread.
async fn on_own_thread(call: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("container-wait".into()).spawn(move || drop(tell.send(call())))?;
    told.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// How long a record is looked at again that this process holds.
fn patience(holder: Holder) -> Duration {
    match holder {
        Holder::Shim => START_PATIENCE,
        Holder::Init => INIT_PATIENCE,
    }
}

/// Of every directory with the name of a record, in order. What else stands there is left as it is.
fn ids(dir: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut ids = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        let id = entry.file_name().to_str().and_then(id_of);
        match id.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            Some(id) => drop(ids.insert(id)),
            None => {
                tracing::warn!(entry = %entry.path().display(), "no record of a container: left as it is")
            }
        }
    }
    Ok(ids)
}

/// The id in a record's name: pod, container and attempt. No part of an id holds what stands for the stroke between them.
fn id_of(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('_').collect();
    let [pod, container, attempt] = parts[..] else { return None };
    let named = !pod.is_empty() && !pod.starts_with('.') && !container.is_empty();
    // Only the way in which it is written by us leads back to this name.
    let number: u32 = attempt.parse().ok().filter(|number: &u32| number.to_string() == attempt)?;
    named.then(|| format!("{pod}/{container}/{number}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::record::tests::{Idle, running};
    use super::*;

    const ID: &str = "uid/main/0";

    fn containers() -> (tempfile::TempDir, RealContainers, Record) {
        let dir = tempfile::tempdir().unwrap();
        let containers = RealContainers::new(dir.path(), "/no/shim".into());
        let record = containers.record(ID).unwrap();
        fs::create_dir_all(record.dir()).unwrap();
        (dir, containers, record)
    }

    /// Whoever lists the containers starts those that are missing.
    #[tokio::test]
    async fn a_container_that_is_being_started_is_listed_when_it_runs() {
        let (_dir, containers, record) = containers();
        let (_idle, process) = Idle::start();
        let shim = record.lock().unwrap();
        let mut listing = std::pin::pin!(containers.list());
        let early = tokio::time::timeout(Duration::from_millis(50), &mut listing).await;
        assert!(early.is_err(), "it may run in a moment: {early:?}");
        record.set_running(&running(&process, &process)).unwrap();
        drop(shim);
        let state = State::Running { pid: process.pid, started_at: jiff::Timestamp::UNIX_EPOCH };
        let found = Found { id: ID.into(), state, evicted: false, earlier_boot: false };
        assert_eq!(listing.await.unwrap(), std::slice::from_ref(&found));
        containers.mark_evicted(ID).await.unwrap();
        assert_eq!(containers.list().await.unwrap(), [Found { evicted: true, ..found }]);
    }

    /// C10: it neither ends the process nor starts a second copy beside one that runs.
    #[tokio::test]
    async fn an_unreadable_exit_record_is_an_unknown_end() {
        let (_dir, containers, record) = containers();
        let (idle, process) = Idle::start();
        record.set_running(&running(&process, &process)).unwrap();
        fs::write(record.dir().join("exit.json"), "{\"code\":").unwrap();
        let found = containers.list().await.unwrap();
        assert!(matches!(found[..], [Found { state: State::Running { .. }, .. }]), "{found:?}");
        drop(idle);
        let found = containers.list().await.unwrap();
        let [Found { state: State::Exited { exit, .. }, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!(exit.code, 137);
    }

    /// What stands there besides is left as it is, and keeps no record from being listed.
    #[tokio::test]
    async fn only_records_are_listed_and_nothing_else_is_changed() {
        let (dir, containers, record) = containers();
        let (_idle, process) = Idle::start();
        record.set_running(&running(&process, &process)).unwrap();
        let root = dir.path().join("containers");
        fs::write(root.join("notes.txt"), "kept").unwrap();
        fs::write(root.join("uid_file_0"), "kept").unwrap();
        for stray in ["lost+found", "backup_main", "uid_main_0_copy", "uid_main_x", "uid_other_0"] {
            fs::create_dir(root.join(stray)).unwrap();
            fs::write(root.join(stray).join("precious"), "kept").unwrap();
        }
        fs::create_dir(root.join("uid_empty_0")).unwrap();
        let found = containers.list().await.unwrap();
        let ids: Vec<&str> = found.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(ids, [ID]);
        for stray in ["lost+found", "backup_main", "uid_main_0_copy", "uid_main_x", "uid_other_0"] {
            let left: Vec<_> = fs::read_dir(root.join(stray)).unwrap().flatten().collect();
            assert_eq!(left.len(), 1, "{stray} is as it was: {left:?}");
        }
        assert!(root.join("notes.txt").exists() && root.join("uid_file_0").exists());
        assert!(!root.join("uid_empty_0").exists(), "of a start that came to nothing");
        assert!(containers.remove("uid/other/0").await.is_err(), "it holds what is not ours");
    }

    /// An end is taken for certain only if no shim can be at it.
    #[tokio::test]
    async fn a_record_that_cannot_be_read_holds_up_no_other() {
        let (_dir, containers, record) = containers();
        let (_idle, process) = Idle::start();
        record.set_running(&running(&process, &process)).unwrap();
        let odd = containers.record("uid/odd/0").unwrap();
        fs::create_dir_all(odd.dir().join("running.json")).unwrap();
        let found = containers.list().await.unwrap();
        let states: Vec<_> = found.iter().map(|found| (found.id.as_str(), &found.state)).collect();
        let [(ID, State::Running { .. }), ("uid/odd/0", State::Exited { exit, .. })] = states[..] else {
            panic!("{found:?}")
        };
        assert!(exit.error.as_ref().unwrap().contains("running.json"), "{exit:?}");
        let shim = odd.lock().unwrap();
        let found = containers.list().await.unwrap();
        assert!(matches!(found[1].state, State::Running { .. }), "its shim lives: {found:?}");
        drop(shim);
    }

    /// An init that is stuck in the kernel keeps its lock; without its shim it will never run the program.
    #[tokio::test]
    async fn a_hung_init_does_not_hold_up_the_list() {
        let (_dir, containers, record) = containers();
        let (_idle, process) = Idle::start();
        let hung = containers.record("uid/hung/0").unwrap();
        fs::create_dir_all(hung.dir()).unwrap();
        let init = hung.lock_init().unwrap();
        record.set_running(&running(&process, &process)).unwrap();
        // A clock that only moves while nothing runs, so that a busy machine does not matter.
        tokio::time::pause();
        let begun = Instant::now();
        let found = containers.list().await.unwrap();
        let took = begun.elapsed();
        tokio::time::resume();
        assert!(took < START_PATIENCE, "waited {took:?} as if for a shim");
        // Its volumes are in use until it is gone.
        let states: Vec<_> = found.iter().map(|found| (found.id.as_str(), &found.state)).collect();
        let [("uid/hung/0", State::Running { .. }), (ID, State::Running { .. })] = states[..] else {
            panic!("{found:?}")
        };
        let mut waiting = std::pin::pin!(containers.wait("uid/hung/0"));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
        assert!(early.is_err(), "it is there yet: {early:?}");
        drop(init);
        assert_eq!(waiting.await.unwrap_err().errno, Some(libc::ENOENT));
    }

    #[tokio::test]
    async fn a_container_whose_shim_was_killed_is_waited_for_to_its_very_end() {
        let (_dir, containers, record) = containers();
        let ((first, shim), (second, init)) = (Idle::start(), Idle::start());
        record.set_running(&running(&shim, &init)).unwrap();
        drop(first);
        let mut waiting = std::pin::pin!(containers.wait(ID));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
        assert!(early.is_err(), "its volumes are in use: {early:?}");
        containers.signal(ID, libc::SIGKILL).await.unwrap();
        // Buried, too: nobody else is its parent here.
        drop(second);
        assert_eq!(waiting.await.unwrap().code, 137);
    }
}
