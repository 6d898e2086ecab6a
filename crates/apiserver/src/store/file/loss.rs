//! A store that is older than its mark says: refused, until the loss is accepted.

use std::path::Path;

use super::super::backup::leap;
use super::super::errors::OpenError;
use super::mark::{Found, Mark, MarkFile};
use super::{DATABASE, Files, Loaded, directory, journal, pause_before_opening, rebuild};

/// What [`accept_loss`] found.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// What was missing, a sentence each; empty if nothing was.
    pub lost: Vec<String>,
    /// What is left.
    pub objects: usize,
    /// The store goes on from here.
    pub resource_version: u64,
}

/// Before the database is opened: it would make up for missing files with empty ones.
pub fn refuse_missing(mark: &Mark, database: &Path) -> Result<(), String> {
    let missing = mark.missing(database)?;
    if missing.is_empty() { Ok(()) } else { Err(format!("{} missing", is(&missing))) }
}

pub fn refuse_older(mark: &Mark, loaded: &Loaded) -> Result<(), String> {
    if loaded.version >= mark.version {
        return Ok(());
    }
    Err(format!(
        "it is at resourceVersion {}, although {} was acknowledged: its files are older than they were, or cut short",
        loaded.version, mark.version
    ))
}

fn is(names: &[String]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

/// Opens what is left of a store and notes that it is all there is. Versions go on far above those that were given
/// out, so that none comes back with another meaning. Blocks.
pub fn accept_loss(dir: &Path) -> Result<Loss, OpenError> {
    let _lock = directory::claim(dir)?;
    let broken = |why: String| OpenError::Broken { place: directory::place(dir), why };
    rebuild::finish_interrupted(dir).map_err(broken)?;
    let database = dir.join(DATABASE);
    let (mut mark, found) = MarkFile::open(dir).map_err(broken)?;
    let (mut lost, known) = match found {
        Found::Mark(mark) => {
            (refuse_missing(&mark, &database).err().into_iter().collect::<Vec<_>>(), mark.version)
        }
        Found::Nothing => (vec!["its mark is missing".to_owned()], 0),
        Found::Unreadable(why) => (vec![why], 0),
    };
    let damaged = |why: String| OpenError::Damaged { dir: dir.display().to_string(), why };
    journal::mend(&database).map_err(damaged)?;
    // The database notices a missing file at the first try and makes up for it at the second.
    let pause = pause_before_opening(dir);
    let files = Files::open(&database, pause).or_else(|_| Files::open(&database, pause));
    let files = files.map_err(|error| {
        broken(format!(
            "what is left cannot be opened: {error}; move {} aside to begin with an empty store",
            database.display()
        ))
    })?;
    let loaded = files.load().map_err(damaged)?;
    lost.extend(refuse_older(&Mark { version: known, ..Mark::default() }, &loaded).err());
    if lost.is_empty() {
        return Ok(Loss { lost, objects: loaded.objects.len(), resource_version: loaded.version });
    }
    let version = leap(loaded.version.max(known), bowline_host::real::now());
    files.append(&[], version).map_err(|error| broken(error.to_string()))?;
    // Last, so that a crash before this leaves a store that is still refused.
    mark.set(Mark::of(&database, version).map_err(broken)?).map_err(broken)?;
    Ok(Loss { lost, objects: loaded.objects.len(), resource_version: version })
}
