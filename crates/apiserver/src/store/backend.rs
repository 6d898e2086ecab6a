//! What keeps objects beyond the process.

use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;

use super::object::Stored;

/// One object as a backend keeps it.
#[derive(Debug, Clone)]
pub struct Record {
    pub resource: Arc<str>,
    pub key: ObjectKey,
    pub version: u64,
    /// Absent when the object is deleted.
    pub json: Option<Bytes>,
}

/// What a backend held when it was opened.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The last version ever given out, deletions included.
    pub version: u64,
    pub objects: Vec<(Arc<str>, Arc<Stored>)>,
}

/// A place that survives the process. Calls block.
pub trait Backend: Send {
    /// Makes all records durable, or none; `version` is the last one of the batch.
    ///
    /// After an error nothing is known of the batch and the sequencer writes no more.
    fn append(&mut self, batch: &[Record], version: u64) -> Result<(), String>;
}

/// Keeps nothing: the live state is all there is.
pub struct Memory;

impl Backend for Memory {
    fn append(&mut self, _batch: &[Record], _version: u64) -> Result<(), String> {
        Ok(())
    }
}
