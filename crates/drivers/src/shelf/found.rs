//! What stands in one directory of a shelf, before anybody judges it.

use std::io;
use std::path::Path;

use bowline_host::Disk;
use serde::Deserialize;

use super::label::{LABEL, Label};
use super::{RECORD, Record};

/// Something that may be missing or spoilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read<T> {
    Missing,
    Good(T),
    Bad(Bad),
}

/// Why something cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bad {
    /// Cut short, overwritten, empty.
    Garbled(String),
    /// Of another version of this program, so not ours to touch.
    Layout(u32),
    /// The disk does not give it.
    Unreadable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<R> {
    pub record: Read<R>,
    pub image: Option<Image>,
    pub label: Read<Label<R>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    pub length: u64,
    /// Whether anything was ever written to it: its holes do not cover all of it.
    pub has_data: bool,
}

#[derive(Deserialize)]
struct Layout {
    version: u32,
}

/// A record of the layout this program writes.
pub fn decode<R: Record>(value: &serde_json::Value) -> Result<R, Bad> {
    let garbled = |error: serde_json::Error| Bad::Garbled(error.to_string());
    match Layout::deserialize(value).map_err(garbled)?.version {
        version if version == R::VERSION => R::deserialize(value).map_err(garbled),
        other => Err(Bad::Layout(other)),
    }
}

fn parse<R: Record>(bytes: &[u8]) -> Result<R, Bad> {
    // Straight from the bytes: thousands of records are read at start, and nearly all of them are good.
    match serde_json::from_slice::<R>(bytes) {
        Ok(record) if record.version() == R::VERSION => Ok(record),
        _ => decode(&serde_json::from_slice(bytes).map_err(|error| Bad::Garbled(error.to_string()))?),
    }
}

pub async fn record<R: Record>(disk: &dyn Disk, dir: &Path) -> Read<R> {
    match disk.read(&dir.join(RECORD)).await {
        Ok(bytes) => parse(&bytes).map_or_else(Read::Bad, Read::Good),
        Err(error) if is_missing(&error) => Read::Missing,
        Err(error) => Read::Bad(Bad::Unreadable(error.to_string())),
    }
}

/// Looks at everything that belongs to a thing.
pub async fn look<R: Record>(disk: &dyn Disk, dir: &Path) -> io::Result<Found<R>> {
    look_beside(disk, dir, record(disk, dir).await).await
}

/// Looks at everything else when the record is known already.
pub async fn look_beside<R: Record>(disk: &dyn Disk, dir: &Path, record: Read<R>) -> io::Result<Found<R>> {
    let Some(name) = R::IMAGE else { return Ok(Found { record, image: None, label: Read::Missing }) };
    let path = dir.join(name);
    let length = match disk.length(&path).await {
        Ok(length) => length,
        Err(error) if is_missing(&error) => {
            return Ok(Found { record, image: None, label: Read::Missing });
        }
        Err(error) => return Err(error),
    };
    let has_data = !disk.extents(&path, 0, 1).await?.is_empty();
    let label = match disk.label(&path, LABEL).await? {
        Some(bytes) => Label::parse(&bytes).map_or_else(Read::Bad, Read::Good),
        None => Read::Missing,
    };
    Ok(Found { record, image: Some(Image { length, has_data }), label })
}

/// A path below something that is no directory is missing, too.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
