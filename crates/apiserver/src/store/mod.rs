//! How writes are ordered and kept, and how readers and watchers see them.
//!
//! Gets, lists and [`watch`]es read one shared [`state`] in memory, which holds only what is durable (API-1, API-2).
//! Who fills it depends on where objects are kept:
//!
//! - in memory or in a directory: one [`sequencer`] orders all writes, hands out resourceVersions, makes them durable
//!   through a [`backend`] and then publishes them;
//! - in [`etcd`]: its revisions are the resourceVersions, and a watch over all keys publishes what any server wrote.

mod backend;
mod backup;
mod check;
mod draft;
mod errors;
mod etcd;
mod expiry;
mod file;
mod follower;
mod object;
mod options;
mod recovery;
mod room;
mod sequencer;
mod snapshot;
mod state;
mod watch;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bowline_api::ObjectKey;
use bowline_host::Random;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use backend::{AppendError, Backend, Loaded, Record, Space};
pub use backup::{BackupError, Summary, backup, restore};
pub use check::{Count, Report, check_directory, check_etcd};
pub use errors::{OpenError, Trouble, WriteError};
pub use etcd::EtcdSettings;
pub use file::{DATABASE as OBJECTS, Loss, accept_loss, is_marked, rebuild as compact};
pub use follower::Feed;
pub use object::{CLOSING, Event, EventKind, Keep, Stored, frame, json, opening, type_prefix};
pub use options::{Expiry, Options};
pub use room::Wanted;
pub use snapshot::{Gone, Page};
pub use state::{Limits, PastHold};
pub use watch::Watcher;

use etcd::EtcdStore;
use expiry::Expiries;
use follower::Follower;
use sequencer::{Job, Sequencer};
use snapshot::{Rest, Stretch};
use state::Shared;

/// Writes waiting for the sequencer; more callers than this wait in line.
const QUEUE_MAX: usize = 4096;

/// One compare-and-swap of one object.
#[derive(Debug)]
pub struct Write {
    /// `plural` or `plural.group`.
    pub resource: Arc<str>,
    pub key: ObjectKey,
    pub expect: Expect,
    pub change: Change,
}

impl Write {
    /// In the words of etcd's metrics.
    fn operation(&self) -> &'static str {
        match (&self.change, self.expect) {
            (Change::Put(_), Expect::Absent) => "create",
            (Change::Put(_), Expect::Version(_)) => "update",
            (Change::Delete, _) => "delete",
        }
    }
}

/// What must be true of the object for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Version(u64),
}

#[derive(Debug)]
pub enum Change {
    /// The new state; its `metadata.resourceVersion` is set by the store.
    Put(Value),
    Delete,
}

/// The objects of a server. Cheap to clone; all clones see the same state.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    expiries: Option<Arc<Expiries>>,
    writer: Writer,
    /// Told of every write that was tried.
    observer: OnceLock<Observer>,
}

/// Hears of writes: what they did, to which resource, how long they took, whether they succeeded.
type Observer = Box<dyn Fn(&'static str, &Arc<str>, Duration, bool) + Send + Sync>;

/// Where writes go.
enum Writer {
    /// To a sequencer in the caller: nothing to wait for, and deterministic on one thread.
    Inline(Mutex<Sequencer>),
    /// To a sequencer on its own thread, because it blocks on the disk. Both are taken apart on drop.
    Thread {
        queue: Option<mpsc::Sender<Job>>,
        thread: Option<JoinHandle<()>>,
    },
    Etcd(EtcdStore),
    /// To another store in this process.
    Follower(Follower),
}

impl Store {
    /// Keeps nothing beyond the process.
    pub fn memory() -> Self {
        Self::memory_with(Limits::default())
    }

    /// The same with another amount of history.
    pub fn memory_with(limits: Limits) -> Self {
        Self::memory_on(Options { limits, ..Options::default() })
    }

    pub fn memory_on(options: Options) -> Self {
        Self::inline(Box::new(backend::Memory), Loaded::default(), options)
    }

    /// Keeps nothing beyond the process, and starts with objects of another store.
    pub fn memory_of(loaded: Loaded) -> Self {
        Self::inline(Box::new(backend::Memory), loaded, Options::default())
    }

    /// A store on a backend that does not block, with the sequencer in the caller: deterministic on one thread.
    pub fn inline(backend: Box<dyn Backend>, loaded: Loaded, options: Options) -> Self {
        let expiries = expiries(&options, &loaded);
        let shared = Arc::new(Shared::new(loaded, options.limits));
        let sequencer = Sequencer::new(shared.clone(), backend, options, expiries.clone());
        let writer = Writer::Inline(Mutex::new(sequencer));
        Self { inner: Arc::new(Inner { shared, expiries, writer, observer: OnceLock::new() }) }
    }

    /// A second view of this store, as another server has it: it sees what its feed brings, when it brings it.
    pub fn follower(&self, options: Options) -> (Self, Feed) {
        let shared = Arc::new(Shared::new(self.contents(), options.limits));
        let writer = Writer::Follower(Follower::new(self.clone(), shared.clone()));
        let feed = Feed::new(shared.clone());
        (Self { inner: Arc::new(Inner { shared, expiries: None, writer, observer: OnceLock::new() }) }, feed)
    }

    /// Everything that is stored now, to start other stores with; the objects are shared.
    pub fn contents(&self) -> Loaded {
        self.inner.shared.read().contents()
    }

    /// Keeps everything in a directory, which is created if missing and locked while open. Blocks.
    pub fn open_file(dir: &Path) -> Result<Self, OpenError> {
        Self::open_file_on(dir, Options::default())
    }

    pub fn open_file_on(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let (backend, loaded) = file::open(dir)?;
        Self::on_thread(Box::new(backend), loaded, options)
            .map_err(|error| OpenError::Broken { place: dir.display().to_string(), why: error.to_string() })
    }

    /// Keeps everything in etcd, which other servers may use at the same time. Tasks of this store run on the
    /// current runtime until the last clone is gone.
    pub async fn open_etcd(
        settings: EtcdSettings,
        options: Options,
        random: &dyn Random,
    ) -> Result<Self, OpenError> {
        let (store, shared) = EtcdStore::open(settings, options, random).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                shared,
                expiries: None,
                writer: Writer::Etcd(store),
                observer: OnceLock::new(),
            }),
        })
    }

    /// A store on any blocking backend, with the sequencer on its own thread.
    pub fn on_thread(backend: Box<dyn Backend>, loaded: Loaded, options: Options) -> std::io::Result<Self> {
        let expiries = expiries(&options, &loaded);
        let shared = Arc::new(Shared::new(loaded, options.limits));
        let mut sequencer = Sequencer::new(shared.clone(), backend, options, expiries.clone());
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || sequencer.run(jobs))?;
        let writer = Writer::Thread { queue: Some(queue), thread: Some(thread) };
        Ok(Self { inner: Arc::new(Inner { shared, expiries, writer, observer: OnceLock::new() }) })
    }

    /// Starts the task that deletes what expires, on the current runtime; it ends with the store. etcd needs none.
    pub fn expire_in_background(&self) {
        if let Some(expiries) = self.inner.expiries.clone() {
            tokio::spawn(expiry::run(expiries, Arc::downgrade(&self.inner)));
        }
    }

    /// Writes one object; returns once it is durable and visible.
    ///
    /// A delete returns the state that was deleted, under the version of the deletion.
    pub async fn write(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        if let Change::Put(object) = &write.change {
            object::check_depth(object)?;
        }
        let Some(observer) = self.inner.observer.get() else { return self.commit(write).await };
        let (operation, resource, started) = (write.operation(), write.resource.clone(), Instant::now());
        let written = self.commit(write).await;
        observer(operation, &resource, started.elapsed(), written.is_ok());
        written
    }

    /// Hears of every write from now on. The first observer stays.
    pub fn observe_writes(
        &self,
        observer: impl Fn(&'static str, &Arc<str>, Duration, bool) + Send + Sync + 'static,
    ) {
        let _ = self.inner.observer.set(Box::new(observer));
    }

    /// Why nothing can be written now, if nothing can.
    pub fn trouble(&self) -> Option<String> {
        self.inner.shared.trouble()
    }

    /// How many objects each resource has.
    pub fn counts(&self) -> Vec<(Arc<str>, usize)> {
        self.inner.shared.read().counts()
    }

    async fn commit(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        match &self.inner.writer {
            Writer::Inline(sequencer) => {
                // Nothing here ever waits, so a busy caller lets others run from time to time.
                tokio::task::coop::consume_budget().await;
                let mut sequencer = sequencer.lock().unwrap_or_else(PoisonError::into_inner);
                let mut results = sequencer.commit(vec![write]);
                results.pop().unwrap_or_else(|| Err(stopped()))
            }
            Writer::Thread { queue, .. } => {
                let (reply, answer) = oneshot::channel();
                let queue = queue.as_ref().ok_or_else(stopped)?;
                queue.send(Job { write, reply }).await.map_err(|_| stopped())?;
                answer.await.map_err(|_| lost())?
            }
            Writer::Etcd(etcd) => etcd.write(write).await,
            Writer::Follower(follower) => follower.write(write).await,
        }
    }

    /// Returns once what is read here is no older than this call. Other servers may write to etcd; to the other
    /// stores nobody else does.
    pub async fn fresh(&self) -> Result<(), Trouble> {
        match &self.inner.writer {
            Writer::Etcd(etcd) => etcd.fresh().await,
            Writer::Follower(follower) => {
                follower.fresh().await;
                Ok(())
            }
            Writer::Inline(_) | Writer::Thread { .. } => Ok(()),
        }
    }

    pub fn get(&self, resource: &str, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.inner.shared.read().object(resource, key)
    }

    /// The latest resourceVersion: of the whole store, not of one kind.
    pub fn version(&self) -> u64 {
        self.inner.shared.read().version()
    }

    /// Up to `max` objects after a key, as they were at a version (now, if none is given).
    pub fn page(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        at: Option<u64>,
        max: usize,
    ) -> Result<Page, Gone> {
        let stretch = Stretch { after, at, max, rest: Rest::Counted };
        snapshot::page(&self.inner.shared.read(), resource, namespace, stretch)
    }

    /// The same without counting what follows: all stretches of a list together take as long as its objects.
    pub fn stretch(
        &self,
        resource: &str,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        at: Option<u64>,
        max: usize,
    ) -> Result<Page, Gone> {
        let stretch = Stretch { after, at, max, rest: Rest::Noticed };
        snapshot::page(&self.inner.shared.read(), resource, namespace, stretch)
    }

    /// Keeps the past of a kind after the current version for a reader that needs time, as far as there is room for it.
    pub fn hold_past(&self, resource: &str) -> Option<PastHold> {
        self.inner.shared.hold_past(resource)
    }

    /// Everything that happens to a kind after a version.
    pub fn watch(&self, resource: &Arc<str>, after: u64) -> Result<Watcher, Gone> {
        Watcher::new(self.inner.shared.clone(), resource.clone(), after)
    }

    /// Returns once the store has reached a version.
    pub async fn reached(&self, version: u64) {
        if let Writer::Etcd(etcd) = &self.inner.writer {
            return etcd.reached(version).await;
        }
        self.inner.shared.reached(version).await;
    }
}

fn expiries(options: &Options, loaded: &Loaded) -> Option<Arc<Expiries>> {
    options.expiry.clone().map(|settings| Arc::new(Expiries::new(settings, loaded)))
}

/// The write was never taken.
fn stopped() -> WriteError {
    Trouble::NotWritten("the store has stopped".into()).into()
}

/// The write was taken, and its answer never came.
fn lost() -> WriteError {
    Trouble::Unknown("the store has stopped".into()).into()
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(expiries) = &self.expiries {
            expiries.close();
        }
        if let Writer::Thread { queue, thread } = &mut self.writer {
            drop(queue.take());
            // Joined so that the directory is unlocked when the last handle is gone.
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests;
