//! Compaction: everything that lives is written to a new database, which then takes the place of the old one.
//!
//! A crash at any point leaves one whole database: either the new one is not yet in place and is thrown away, or the
//! old one is out of the way and the new one moves in at the next opening.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::super::backup::leap;
use super::super::errors::OpenError;
use super::mark::{Mark, MarkFile};
use super::{DATABASE, FileBackend, Files, Loaded, Record, Stored, open};

/// Being written; worthless until it is renamed.
const UNFINISHED: &str = "objects.unfinished";
/// Whole; waits for its place.
const READY: &str = "objects.ready";
/// On its way out.
const OLD: &str = "objects.old";
/// Objects per batch.
const BATCH: usize = 1000;

/// Which of the directories above stand there, the one in use first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    current: bool,
    ready: bool,
    old: bool,
}

/// What is left to do for a rebuild that was interrupted, besides removing what is worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Nothing,
    MoveIn,
    ThrowAway,
    MoveBack,
}

fn decide(seen: Seen) -> Finish {
    match seen {
        Seen { current: true, ready: false, .. } => Finish::Nothing,
        Seen { current: false, ready: true, .. } => Finish::MoveIn,
        // The old one was not moved out, so it may have been written since.
        Seen { current: true, ready: true, .. } => Finish::ThrowAway,
        // No crash leaves this, but a careless hand might.
        Seen { current: false, ready: false, old: true } => Finish::MoveBack,
        Seen { current: false, ready: false, old: false } => Finish::Nothing,
    }
}

/// Takes up what a crash left of a rebuild.
pub fn finish_interrupted(dir: &Path) -> Result<(), String> {
    let there = |name: &str| dir.join(name).exists();
    match decide(Seen { current: there(DATABASE), ready: there(READY), old: there(OLD) }) {
        Finish::Nothing => {}
        Finish::MoveIn => rename(dir, READY, DATABASE)?,
        Finish::ThrowAway => remove(dir, READY)?,
        Finish::MoveBack => rename(dir, OLD, DATABASE)?,
    }
    remove(dir, UNFINISHED)?;
    remove(dir, OLD)
}

/// Writes a directory anew; nobody else may have it open. Returns the bytes it took before and after.
pub fn rebuild(dir: &Path) -> Result<(u64, u64), OpenError> {
    let (backend, loaded) = open(dir)?;
    let why = |why: String| OpenError::Broken { place: super::directory::place(dir), why };
    let taken = || bowline_host::real::allocated_bytes(dir).map_err(|error| why(error.to_string()));
    let before = taken()?;
    let FileBackend { files, mut mark, _lock, .. } = backend;
    drop(files);
    fill(&dir.join(UNFINISHED), &loaded).map_err(why)?;
    // Before the new database is in place, because its journals are counted from the beginning.
    mark.forget_journal().map_err(why)?;
    for (from, to) in [(UNFINISHED, READY), (DATABASE, OLD), (READY, DATABASE)] {
        rename(dir, from, to).map_err(why)?;
    }
    remove(dir, OLD).map_err(why)?;
    Ok((before, taken()?))
}

/// Fills a directory that has no store yet. Versions go on above those of the backup and of a store that was lost here.
pub fn place(dir: &Path, mut loaded: Loaded) -> Result<(), OpenError> {
    let _lock = super::directory::claim(dir)?;
    let why = |why: String| OpenError::Broken { place: super::directory::place(dir), why };
    for name in [DATABASE, READY, OLD] {
        if dir.join(name).exists() {
            return Err(why(format!("it holds a store already ({name}); choose an empty directory")));
        }
    }
    loaded.version = promise(dir, loaded.version).map_err(why)?;
    remove(dir, UNFINISHED).map_err(why)?;
    fill(&dir.join(UNFINISHED), &loaded).map_err(why)?;
    rename(dir, UNFINISHED, DATABASE).map_err(why)
}

/// Marks a directory as that of a store which is about to be restored, and returns its version. It comes first: a crash
/// after this leaves a directory that asks for the restore again, and never one that begins with nothing.
fn promise(dir: &Path, saved: u64) -> Result<u64, String> {
    let (mut mark, _) = MarkFile::open(dir)?;
    let version = leap(saved.max(mark.known().version), bowline_host::real::now());
    mark.set(Mark { version, ..Mark::default() })?;
    Ok(version)
}

/// A new database with this content, closed again.
fn fill(path: &Path, loaded: &Loaded) -> Result<(), String> {
    let files = Files::open(path, None).map_err(|error| error.to_string())?;
    let expiries: BTreeMap<_, _> =
        loaded.expiries.iter().map(|(resource, key, at)| ((resource, key), *at)).collect();
    let record = |(resource, object): &(Arc<str>, Arc<Stored>)| Record {
        resource: resource.clone(),
        key: object.key.clone(),
        version: object.version,
        json: Some(object.json.clone()),
        expires: expiries.get(&(resource, &object.key)).copied(),
    };
    for objects in loaded.objects.chunks(BATCH) {
        let records: Vec<Record> = objects.iter().map(record).collect();
        files.append(&records, loaded.version).map_err(|error| error.to_string())?;
    }
    // Also for a store without objects.
    files.append(&[], loaded.version).map_err(|error| error.to_string())?;
    let written = files.load()?;
    if written.objects.len() != loaded.objects.len() || written.version != loaded.version {
        return Err(format!("{} does not hold what was written to it", path.display()));
    }
    Ok(())
}

fn rename(dir: &Path, from: &str, to: &str) -> Result<(), String> {
    let renamed = std::fs::rename(dir.join(from), dir.join(to));
    let synced = renamed.and_then(|()| File::open(dir)?.sync_all());
    synced.map_err(|error| format!("rename {from} to {to}: {error}"))
}

fn remove(dir: &Path, name: &str) -> Result<(), String> {
    match std::fs::remove_dir_all(dir.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("remove {name}: {error}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_restore_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = promise(dir.path(), 7).unwrap();
        let refused = open(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("objects is missing"), "{refused}");
        assert!(promise(dir.path(), 7).unwrap() > first, "the next try has other versions");
        place(dir.path(), Loaded { version: 7, ..Loaded::default() }).unwrap();
        assert!(open(dir.path()).unwrap().1.version > first);
    }

    #[test]
    fn an_interrupted_rebuild_has_one_way_on() {
        let table = [
            ((true, false, false), Finish::Nothing),
            ((true, false, true), Finish::Nothing),
            ((false, false, false), Finish::Nothing),
            ((false, true, true), Finish::MoveIn),
            ((true, true, false), Finish::ThrowAway),
            ((false, false, true), Finish::MoveBack),
        ];
        for ((current, ready, old), finish) in table {
            assert_eq!(decide(Seen { current, ready, old }), finish);
        }
    }
}
