//! The embedded durable backend: fjall, one batch and one sync per commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::OpenError;
use super::backend::{Backend, Loaded, Record};
use super::directory::{self, Lock};
use super::object::Stored;

/// Objects live under `resource NUL namespace NUL name`; no resource is empty, so this sorts before all.
const VERSION_KEY: &[u8] = b"\0version";
const SEPARATOR: char = '\0';
/// Everything is read once, at opening, so a cache would only take memory.
const CACHE_BYTES: u64 = 1 << 20;
const MEMTABLE_BYTES: u64 = 8 << 20;
const JOURNAL_BYTES: u64 = 64 << 20;
/// One thread suffices for the flushes and compactions of one keyspace.
const WORKERS: usize = 1;

pub struct FileBackend {
    database: Database,
    objects: Keyspace,
    /// Dropped last, when the database is closed.
    _lock: Lock,
}

/// Opens or creates the store of a directory and reads all of it.
pub fn open(dir: &Path) -> Result<(FileBackend, Loaded), OpenError> {
    let broken = |why: String| OpenError::Broken { dir: dir.display().to_string(), why };
    let lock = directory::claim(dir)?;
    let database = Database::builder(dir.join("objects"))
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(WORKERS)
        .manual_journal_persist(true)
        .open()
        .map_err(|e| broken(e.to_string()))?;
    let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
    let objects = database.keyspace("objects", options).map_err(|e| broken(e.to_string()))?;
    let loaded = load(&objects).map_err(broken)?;
    Ok((FileBackend { database, objects, _lock: lock }, loaded))
}

fn load(objects: &Keyspace) -> Result<Loaded, String> {
    let mut loaded = Loaded::default();
    for entry in objects.iter() {
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
    Ok(loaded)
}

fn key(resource: &str, key: &ObjectKey) -> Vec<u8> {
    let ObjectKey { namespace, name } = key;
    format!("{resource}{SEPARATOR}{namespace}{SEPARATOR}{name}").into_bytes()
}

fn parse_key(bytes: &[u8]) -> Option<(&str, ObjectKey)> {
    let mut parts = std::str::from_utf8(bytes).ok()?.split(SEPARATOR);
    let (resource, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then(|| (resource, ObjectKey::new(namespace, name)))
}

impl Backend for FileBackend {
    fn append(&mut self, batch: &[Record], version: u64) -> Result<(), String> {
        // One entry per key: a batch has one sequence number, so of two writes to a key (an object deleted
        // and created again) the database could not tell which came last.
        let last: BTreeMap<Vec<u8>, &Record> =
            batch.iter().map(|record| (key(&record.resource, &record.key), record)).collect();
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, record) in last {
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
        writes.commit().map_err(|error| format!("write to disk: {error}"))
    }
}
