//! The embedded durable backend: fjall, one batch and one sync per commit.

mod directory;
mod journal;
mod loss;
mod mark;
mod rebuild;
mod reserve;
mod spare;
mod workers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bowline_api::ObjectKey;
use bowline_host::real::ProcessLock;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use jiff::Timestamp;

use super::backend::{AppendError, Backend, Loaded, Record, Space};
use super::errors::OpenError;
use super::object::Stored;
use super::options::expires;
use super::room::Wanted;
use mark::{Mark, MarkFile};
use reserve::Reserve;
use spare::Spare;
use workers::{Pause, pause_before_opening};

pub use loss::{Loss, accept_loss};
pub use mark::exists as is_marked;
pub use rebuild::{place, rebuild};

/// Objects live under `resource NUL namespace NUL name`; no resource is empty, so this sorts before all.
const VERSION_KEY: &[u8] = b"\0version";
const SEPARATOR: char = '\0';
/// Everything is read once, at opening, so a cache would only take memory.
const CACHE_BYTES: u64 = 1 << 20;
const MEMTABLE_BYTES: u64 = 8 << 20;
/// The least that the database accepts.
const JOURNAL_BYTES: u64 = 64 << 20;
/// One thread suffices for the flushes and compactions of two keyspaces.
const WORKERS: usize = 1;
/// What the journal gets of the spare at a time.
const SPARE_STEP: u64 = 64 << 10;
/// The directory of the database, below that of the store.
pub const DATABASE: &str = "objects";

pub struct FileBackend {
    dir: PathBuf,
    /// Absent only while it is opened again, or after that failed.
    files: Option<Files>,
    /// Set while the database runs without its threads.
    pause: Option<Pause>,
    /// The pause after the last failure of the threads.
    last_failure: Option<Pause>,
    mark: MarkFile,
    reserve: Reserve,
    spare: Spare,
    /// Dropped last, when the database is closed.
    _lock: ProcessLock,
}

/// An open database.
struct Files {
    database: Database,
    objects: Keyspace,
    /// When objects go away by themselves; older versions know nothing of it and are not disturbed.
    expiries: Keyspace,
}

/// Opens or creates the store of a directory and reads all of it. What is older than its mark is refused.
pub fn open(dir: &Path) -> Result<(FileBackend, Loaded), OpenError> {
    let lock = directory::claim(dir)?;
    let broken = |why: String| OpenError::Broken { place: directory::place(dir), why };
    rebuild::finish_interrupted(dir).map_err(broken)?;
    let lost = |what: String| OpenError::Lost { dir: dir.display().to_string(), what };
    let (mut mark, known) = MarkFile::open(dir).map_err(broken)?;
    let known = known.readable().map_err(lost)?;
    let database = dir.join(DATABASE);
    if let Some(known) = &known {
        loss::refuse_missing(known, &database).map_err(lost)?;
    }
    let damaged = |why: String| OpenError::Damaged { dir: dir.display().to_string(), why };
    journal::mend(&database).map_err(damaged)?;
    let pause = pause_before_opening(dir);
    let files = Files::open(&database, pause).map_err(|error| match &known {
        // There was a store, and nothing but its own content keeps it from being opened.
        Some(_) if is_damage(&error) => damaged(format!("its database cannot be opened: {error}")),
        _ => broken(error.to_string()),
    })?;
    let loaded = files.load().map_err(damaged)?;
    if let Some(known) = &known {
        loss::refuse_older(known, &loaded).map_err(lost)?;
    }
    if let Err(error) = mark.set(Mark::of(&database, loaded.version).map_err(broken)?) {
        // A disk without room must not keep the server from starting: it is where volumes are deleted.
        tracing::warn!(%error, "the mark of the store could not be written; it promises what it did before");
    }
    let (reserve, spare) = (Reserve::new(&database), Spare::open(dir));
    let (dir, files) = (dir.to_owned(), Some(files));
    let backend = FileBackend { dir, files, pause, last_failure: None, mark, reserve, spare, _lock: lock };
    Ok((backend, loaded))
}

impl Files {
    fn open(path: &Path, pause: Option<Pause>) -> fjall::Result<Self> {
        let workers = if pause.is_some() { 0 } else { WORKERS };
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads_unchecked(workers)
            .manual_journal_persist(true)
            .open()?;
        let keyspace = |name: &str| {
            let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            database.keyspace(name, options)
        };
        let (objects, expiries) = (keyspace("objects")?, keyspace("expiries")?);
        Ok(Self { database, objects, expiries })
    }

    fn load(&self) -> Result<Loaded, String> {
        let mut loaded = Loaded::default();
        for entry in self.objects.iter() {
            let (key, value) = entry.into_inner().map_err(|e| e.to_string())?;
            let (version, json) = value.split_first_chunk::<8>().ok_or("an entry is cut short")?;
            let version = u64::from_be_bytes(*version);
            // The greater of the two, so that no version is given out twice whatever was lost.
            loaded.version = loaded.version.max(version);
            if &*key != VERSION_KEY {
                let (resource, key) = parse_key(&key).ok_or("an entry has a malformed key")?;
                let object = Arc::new(Stored::new(key, version, Bytes::copy_from_slice(json)));
                // Entries come sorted, so kinds come in runs: share the text of their name.
                let resource = match loaded.objects.last() {
                    Some((last, _)) if **last == *resource => last.clone(),
                    _ => resource.into(),
                };
                loaded.objects.push((resource, object));
            }
        }
        for entry in self.expiries.iter() {
            let (key, value) = entry.into_inner().map_err(|e| e.to_string())?;
            let (resource, key) = parse_key(&key).ok_or("a time of expiry has a malformed key")?;
            let at = value.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes));
            let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
            loaded.expiries.push((resource.into(), key, at.ok_or("a time of expiry is malformed")?));
        }
        Ok(loaded)
    }

    /// Returns how many bytes of the journal that took.
    fn append(&self, batch: &[Record], version: u64) -> fjall::Result<u64> {
        // One entry per key: a batch has one sequence number, so of two writes to a key (an object deleted
        // and created again) the database could not tell which came last.
        let last: BTreeMap<Vec<u8>, &Record> =
            batch.iter().map(|record| (key(&record.resource, &record.key), record)).collect();
        let taken = last.iter().map(|(key, record)| journal::length(key.len(), record)).sum::<usize>();
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, record) in last {
            match record.expires {
                Some(at) => {
                    writes.insert(&self.expiries, key.clone(), at.as_millisecond().to_be_bytes());
                }
                None if expires(&record.resource) => writes.remove(&self.expiries, key.clone()),
                None => {}
            }
            match &record.json {
                Some(json) => {
                    let mut value = Vec::with_capacity(8 + json.len());
                    value.extend_from_slice(&record.version.to_be_bytes());
                    value.extend_from_slice(json);
                    writes.insert(&self.objects, key, value);
                }
                None => writes.remove(&self.objects, key),
            }
        }
        writes.insert(&self.objects, VERSION_KEY, version.to_be_bytes());
        writes.commit()?;
        Ok((taken + journal::BATCH_LENGTH_MAX) as u64)
    }
}

fn key(resource: &str, key: &ObjectKey) -> Vec<u8> {
    let ObjectKey { namespace, name } = key;
    format!("{resource}{SEPARATOR}{namespace}{SEPARATOR}{name}").into_bytes()
}

fn parse_key(bytes: &[u8]) -> Option<(&str, ObjectKey)> {
    // The names of some kinds are any text, so the separator may stand in them.
    let mut parts = std::str::from_utf8(bytes).ok()?.splitn(3, SEPARATOR);
    let (resource, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some((resource, ObjectKey::new(namespace, name)))
}

/// Whether the disk had no room left.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    let full = io.is_some_and(|io| {
        matches!(io.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    });
    full || error.source().is_some_and(is_full)
}

/// Whether it is the content of files that keeps a database from being opened, not the machine under it.
fn is_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{AlreadyExists, InvalidData, NotFound, UnexpectedEof};
    match (error.downcast_ref::<std::io::Error>(), error.source()) {
        (Some(io), _) => matches!(io.kind(), NotFound | AlreadyExists | InvalidData | UnexpectedEof),
        (None, Some(source)) => is_damage(source),
        (None, None) => true,
    }
}

impl FileBackend {
    /// Closes the database and opens it again, with or without its threads.
    fn open_again(&mut self, pause: Option<Pause>) -> Result<&Files, String> {
        // Closed first: the database has a lock and threads of its own.
        self.files = None;
        let path = self.dir.join(DATABASE);
        // Opened now, a database whose files are gone would begin with nothing.
        loss::refuse_missing(self.mark.known(), &path)?;
        journal::mend(&path)?;
        let files = Files::open(&path, pause).map_err(|error| error.to_string())?;
        self.pause = pause;
        self.reserve = Reserve::new(&path);
        Ok(self.files.insert(files))
    }

    /// Appends to a database whose threads have ended. It takes no write in that state, so nothing of the batch is there.
    fn append_without_threads(
        &mut self,
        (batch, version): (&[Record], u64),
        pause: Pause,
    ) -> Result<u64, AppendError> {
        tracing::warn!(
            "the disk of the store has no room for tables: appending to the journal alone until there is room"
        );
        let context = format!("write to {}: the database has no room for its tables", self.dir.display());
        let full = |why: String| AppendError { why: format!("{context}, {why}"), full: true };
        let files = self.open_again(Some(pause)).map_err(full)?;
        files.append(batch, version).map_err(|error| full(error.to_string()))
    }

    /// After a batch: goes on with threads when there is room for what they write.
    fn end_pause(&mut self, free: u64) {
        if self.pause.is_some_and(|pause| pause.is_over(free, Instant::now())) {
            match self.open_again(None) {
                Ok(_) => tracing::info!("the disk of the store may have room again: writing tables"),
                // The next write reads back what is there.
                Err(why) => tracing::error!(%why, "the store could not be opened again"),
            }
        }
    }
}

impl Backend for FileBackend {
    fn append(&mut self, batch: &[Record], version: u64) -> Result<(), AppendError> {
        let Some(files) = &self.files else {
            return Err(AppendError { why: "the store is not open".into(), full: false });
        };
        let taken = match files.append(batch, version) {
            Ok(taken) => taken,
            Err(error) => {
                let free = spare::free(&self.dir);
                let pause = Pause::after_failure(free, self.last_failure, Instant::now());
                match (&error, pause) {
                    (fjall::Error::Poisoned, Some(pause)) => {
                        self.last_failure = Some(pause);
                        self.append_without_threads((batch, version), pause)?
                    }
                    _ => {
                        let why = format!("write to {}: {error}", self.dir.display());
                        return Err(AppendError { why, full: is_full(&error) });
                    }
                }
            }
        };
        let database = self.dir.join(DATABASE);
        self.mark.reached(version, &database);
        let free = spare::free(&self.dir);
        self.reserve.wrote(taken, &database, free);
        self.spare.refill(free);
        self.end_pause(free);
        Ok(())
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        let loaded = self.open_again(pause_before_opening(&self.dir))?.load();
        if loaded.is_err() {
            self.files = None;
        }
        loaded
    }

    fn make_room(&mut self, wanted: Wanted) {
        let bytes = wanted.spare.next_multiple_of(SPARE_STEP).min(self.spare.left());
        if bytes > 0 && self.spare.cut(bytes) {
            self.reserve.take(bytes, &self.dir.join(DATABASE));
        }
        if wanted.for_others {
            self.spare.give_to_others(spare::free(&self.dir));
        }
    }

    fn space(&self) -> Result<Option<Space>, String> {
        let free = bowline_host::real::free_bytes(&self.dir);
        let free =
            free.map_err(|error| format!("ask for the free space of {}: {error}", self.dir.display()))?;
        let free = free + self.reserve.left();
        Ok(Some(Space { dir: self.dir.clone(), free, spare: self.spare.left() }))
    }
}
