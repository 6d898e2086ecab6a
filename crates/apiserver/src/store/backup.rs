//! `bowline store backup` and `restore`: all objects of a data directory as one file of JSON lines.
//!
//! The first line says what the file is, each further one is an object, and the last one counts and sums up all before
//! it, so that a file that is cut short or changed is noticed before anything is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use bowline_api::ObjectKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::backend::Loaded;
use super::errors::OpenError;
use super::file;
use super::object::{self, Stored};

const KIND: &str = "bowline-store-backup";
const FORMAT: u32 = 1;
/// With a clock that is behind, a restored store goes on this far above all versions that are known: it is a week of
/// 1,500 writes a second.
const VERSION_LEAP: u64 = 1_000_000_000;
/// Versions for each millisecond since 2020, more than a store gives out.
const PER_MILLISECOND: u64 = 10;
const YEAR_2020: u64 = 1_577_836_800_000;

/// Where versions go on after a restore or a loss: above all that were given out, so that none comes back with another
/// meaning. A store may have been restored from the same backup before and left no trace, so the clock says where.
pub(super) fn leap(known: u64, now: Timestamp) -> u64 {
    let elapsed = u64::try_from(now.as_millisecond()).unwrap_or(0).saturating_sub(YEAR_2020);
    let by_clock = elapsed * PER_MILLISECOND;
    if by_clock > known { by_clock } else { known + VERSION_LEAP }
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("{what} {path}: {source}")]
    File { what: &'static str, path: String, source: std::io::Error },
    #[error("{path} is not a whole backup: {why}. Nothing was restored")]
    NotWhole { path: String, why: String },
    #[error(
        "{path} was made by a newer version (format {found}, this one reads up to {FORMAT}): restore it with that version"
    )]
    Newer { path: String, found: u32 },
}

/// What was saved or brought back.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub objects: usize,
    /// Of the store when the backup was made.
    pub resource_version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    kind: String,
    format: u32,
    resource_version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
    object: Value,
}

#[derive(Serialize, Deserialize)]
struct Foot {
    objects: usize,
    sha256: String,
}

/// Saves a data directory, which no server may have open, to a file that does not exist yet. Blocks.
pub fn backup(dir: &Path, path: &Path) -> Result<Summary, BackupError> {
    let (_backend, loaded) = file::open(dir)?;
    let failed = |what| move |source| BackupError::File { what, path: path.display().to_string(), source };
    // For this user alone: secrets are inside.
    let file = bowline_host::real::new_private_file(path).map_err(failed("create"))?;
    let written = save(&loaded, &file).and_then(|()| sync(&file, path));
    if let Err(error) = written {
        // Half a backup would only mislead.
        let _ = std::fs::remove_file(path);
        return Err(failed("write")(error));
    }
    Ok(Summary { objects: loaded.objects.len(), resource_version: loaded.version })
}

fn sync(file: &File, path: &Path) -> std::io::Result<()> {
    file.sync_all()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn save(loaded: &Loaded, file: &File) -> std::io::Result<()> {
    let mut out = BufWriter::new(file);
    let mut sum = Sha256::new();
    let mut line = |text: String| {
        sum.update(&text);
        sum.update("\n");
        writeln!(out, "{text}")
    };
    let head = Head { kind: KIND.into(), format: FORMAT, resource_version: loaded.version };
    line(serde_json::to_string(&head)?)?;
    let expiries: BTreeMap<_, _> =
        loaded.expiries.iter().map(|(resource, key, at)| ((resource, key), *at)).collect();
    for (resource, object) in &loaded.objects {
        let saved = Line {
            resource: resource.to_string(),
            namespace: object.key.namespace.clone(),
            name: object.key.name.clone(),
            version: object.version,
            expires: expiries.get(&(resource, &object.key)).copied(),
            object: serde_json::from_slice(&object.json)?,
        };
        line(serde_json::to_string(&saved)?)?;
    }
    let foot = Foot { objects: loaded.objects.len(), sha256: hex(&sum.finalize()) };
    writeln!(out, "{}", serde_json::to_string(&foot)?)?;
    out.flush()
}

/// Brings a backup back into a directory that holds no store. Blocks.
pub fn restore(path: &Path, dir: &Path) -> Result<Summary, BackupError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| BackupError::File {
        what: "read",
        path: name.clone(),
        source,
    })?;
    let loaded = parse(&text, &name)?;
    let summary = Summary { objects: loaded.objects.len(), resource_version: loaded.version };
    file::place(dir, loaded)?;
    Ok(summary)
}

fn parse(text: &str, path: &str) -> Result<Loaded, BackupError> {
    let not_whole = |why: &str| BackupError::NotWhole { path: path.into(), why: why.into() };
    let (head, _) = text.split_once('\n').ok_or_else(|| not_whole("it has no lines"))?;
    let head: Head = serde_json::from_str(head).map_err(|_| not_whole("its first line is not ours"))?;
    if head.kind != KIND {
        return Err(not_whole("its first line is not ours"));
    }
    if head.format > FORMAT {
        return Err(BackupError::Newer { path: path.into(), found: head.format });
    }
    let whole = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
    let (_, foot) = whole.ok_or_else(|| not_whole("its last line is missing"))?;
    let body = &text[..text.len() - foot.len() - 1];
    let foot: Foot = serde_json::from_str(foot).map_err(|_| not_whole("its last line is missing"))?;
    if hex(&Sha256::digest(body)) != foot.sha256 {
        return Err(not_whole("its checksum is wrong"));
    }
    let mut loaded = Loaded { version: head.resource_version, ..Loaded::default() };
    for line in body.lines().skip(1) {
        let line: Line = serde_json::from_str(line).map_err(|error| not_whole(&error.to_string()))?;
        let (resource, key): (Arc<str>, _) =
            (line.resource.into(), ObjectKey::new(line.namespace, line.name));
        loaded.expiries.extend(line.expires.map(|at| (resource.clone(), key.clone(), at)));
        // In the order of the store, on which lists rely.
        let json = object::json(&line.object).map_err(|error| not_whole(&error.to_string()))?;
        loaded.objects.push((resource, Arc::new(Stored::new(key, line.version, json.into()))));
    }
    if loaded.objects.len() != foot.objects {
        return Err(not_whole("objects are missing"));
    }
    Ok(loaded)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_on_above_all_that_were_given_out() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (before, then, later) =
            (at("2019-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:01Z"));
        assert_eq!(leap(5, before), 5 + VERSION_LEAP);
        let restored = leap(5, then);
        assert!(restored > 5 + VERSION_LEAP);
        assert_eq!(leap(5, later), restored + 10_000, "again from the same backup");
        assert_eq!(leap(restored, then), restored + VERSION_LEAP, "the clock stands still");
    }
}
