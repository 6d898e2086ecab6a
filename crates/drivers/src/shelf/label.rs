//! The copy of a record that travels with the image itself, whatever becomes of directory and record.

use serde::{Deserialize, Serialize};

use super::Record;
use super::found::{Bad, decode};
use crate::error::VolumeError;
use crate::id::{Id, Kind};

/// The name of the label on an image.
pub const LABEL: &str = "bowline.volume";

/// ext4 keeps all attributes of a file in one block of 4 KiB; some of it is for others.
const LENGTH_MAX: usize = 3500;

/// Whose image it is, and what cannot be found out by looking at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label<R> {
    pub kind: String,
    pub id: String,
    pub record: R,
}

impl<R: Record> Label<R> {
    pub fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        let label: Label<serde_json::Value> =
            serde_json::from_slice(bytes).map_err(|error| Bad::Garbled(error.to_string()))?;
        Ok(Self { kind: label.kind, id: label.id, record: decode(&label.record)? })
    }

    /// Whether the image is where it belongs. A copied or moved directory is not another volume.
    pub fn names<K: Kind>(&self, id: &Id<K>) -> bool {
        self.kind == K::NOUN && self.id == id.as_str()
    }
}

/// The label that belongs to a record. Too much to be kept is refused before anything is made of it.
pub fn encode<K: Kind, R: Record>(id: &Id<K>, record: &R) -> Result<Vec<u8>, VolumeError> {
    let label = Label { kind: K::NOUN.to_owned(), id: id.to_string(), record: record.lasting() };
    let bytes =
        serde_json::to_vec(&label).map_err(|source| VolumeError::Encode { what: id.key(), source })?;
    match bytes.len() {
        0..=LENGTH_MAX => Ok(bytes),
        length => Err(VolumeError::TooMuch { what: id.key(), length, most: LENGTH_MAX }),
    }
}
