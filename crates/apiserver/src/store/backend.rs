//! What keeps objects beyond the process.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;
use jiff::Timestamp;

use super::object::Stored;
use super::room::Wanted;

/// One object as a backend keeps it.
#[derive(Debug, Clone)]
pub struct Record {
    pub resource: Arc<str>,
    pub key: ObjectKey,
    pub version: u64,
    /// Absent when the object is deleted.
    pub json: Option<Bytes>,
    /// When it goes away by itself.
    pub expires: Option<Timestamp>,
}

/// What a backend held when it was opened.
#[derive(Debug, Default, Clone)]
pub struct Loaded {
    /// The last version ever given out, deletions included.
    pub version: u64,
    pub objects: Vec<(Arc<str>, Arc<Stored>)>,
    /// When objects go away by themselves, for those that do.
    pub expiries: Vec<(Arc<str>, ObjectKey, Timestamp)>,
}

/// After this nothing is known of the batch, until [`Backend::reopen`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendError {
    pub why: String,
    /// Whether the disk had no room left.
    pub full: bool,
}

/// The room on the disk of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    pub dir: PathBuf,
    pub free: u64,
    /// What the backend can give up for deletes on top of that.
    pub spare: u64,
}

/// A place that survives the process. Calls block.
pub trait Backend: Send {
    /// Makes all records durable, or none; `version` is the last one of the batch.
    ///
    /// Appending the same batch again changes nothing.
    fn append(&mut self, batch: &[Record], version: u64) -> Result<(), AppendError>;

    /// Lets go of everything, opens the place anew and reads all of it.
    fn reopen(&mut self) -> Result<Loaded, String>;

    /// Something is being deleted: gives up what is kept for that, as far as the disk has no room.
    fn make_room(&mut self, _wanted: Wanted) {}

    /// Nothing for a place without a disk.
    fn space(&self) -> Result<Option<Space>, String> {
        Ok(None)
    }
}

/// Keeps nothing: the live state is all there is.
pub struct Memory;

impl Backend for Memory {
    fn append(&mut self, _batch: &[Record], _version: u64) -> Result<(), AppendError> {
        Ok(())
    }

    fn reopen(&mut self) -> Result<Loaded, String> {
        Err("memory cannot be read again".into())
    }
}
