//! Fields that requests of every driver have, read and checked.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};

use crate::error::VolumeError;
use crate::id::{Id, Kind, VolumeId, quoted};

type Result<T> = std::result::Result<T, VolumeError>;

/// Longest name CSI allows, in bytes.
const NAME_MAX: usize = 128;
/// Keys below this prefix are the caller's remarks, never settings.
pub const METADATA_PREFIX: &str = "csi.storage.k8s.io/";
/// Marks our page tokens. No id contains it.
const TOKEN_PREFIX: &str = "after:";

/// A reverse call: where to undo, and on which volume, if one can have that id at all.
#[derive(Debug)]
pub struct Undo {
    pub asked: String,
    pub id: Option<VolumeId>,
    pub path: PathBuf,
}

impl Undo {
    pub fn parse(volume: &str, place: &str, field: &'static str) -> Result<Self> {
        let id = volume_id(volume)?;
        Ok(Self { asked: quoted(volume), id, path: path(place, field)? })
    }

    /// What to hold while undoing. An id that no volume has still names one operation.
    pub fn key(&self) -> VolumeId {
        self.id.clone().unwrap_or_else(|| VolumeId::for_name(&self.asked))
    }
}

/// An id for calls that are done when no such volume exists.
pub fn volume_id(text: &str) -> Result<Option<VolumeId>> {
    required(text, "volume_id")?;
    Ok(VolumeId::parse(text))
}

/// An id for calls that need the volume.
pub fn existing(text: &str) -> Result<VolumeId> {
    volume_id(text)?.ok_or_else(|| VolumeError::NotFound { id: quoted(text) })
}

pub fn name(text: &str) -> Result<()> {
    required(text, "name")?;
    let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    match text.len() > NAME_MAX || text.contains(control) {
        true => Err(invalid("name", "longer than 128 bytes, or holds control characters")),
        false => Ok(()),
    }
}

/// An absolute path spelled as the mount table spells it.
pub fn path(text: &str, field: &'static str) -> Result<PathBuf> {
    required(text, field)?;
    let path = PathBuf::from(text);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || climbs || path.parent().is_none() || text.contains('\0') {
        return Err(invalid(field, "not an absolute path without `..`"));
    }
    Ok(path.components().collect())
}

/// A path that is only asked about. `None` means that no volume can be there.
pub fn place(text: &str, field: &'static str) -> Result<Option<PathBuf>> {
    match path(text, field) {
        Ok(path) => Ok(Some(path)),
        Err(VolumeError::Invalid { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Settings without the caller's remarks, which may differ between retries.
pub fn settings(mut map: BTreeMap<String, String>) -> BTreeMap<String, String> {
    map.retain(|key, _| !key.starts_with(METADATA_PREFIX));
    map
}

/// Refuses a key that nothing has asked for, so a typing error never goes unnoticed.
pub fn none_left(field: &'static str, map: &BTreeMap<String, String>) -> Result<()> {
    match map.keys().next() {
        Some(key) => Err(invalid(field, format!("unknown key `{}`", quoted(key)))),
        None => Ok(()),
    }
}

/// The id after which a page starts.
pub fn page_token<K: Kind>(token: &str) -> Result<Option<Id<K>>> {
    if token.is_empty() {
        return Ok(None);
    }
    let id = token.strip_prefix(TOKEN_PREFIX).and_then(Id::parse);
    id.map(Some).ok_or(VolumeError::BadToken)
}

pub fn format_page_token<K>(last: &Id<K>) -> String {
    format!("{TOKEN_PREFIX}{last}")
}

/// Entries wanted on a page; `None` when the caller sets no limit.
pub fn page_size(max_entries: i32) -> Result<Option<usize>> {
    match usize::try_from(max_entries) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => Err(invalid("max_entries", "negative")),
    }
}

pub fn required(text: &str, field: &'static str) -> Result<()> {
    if text.is_empty() { Err(VolumeError::Missing(field)) } else { Ok(()) }
}

pub fn invalid(field: &'static str, why: impl Into<String>) -> VolumeError {
    VolumeError::Invalid { field, why: why.into() }
}
