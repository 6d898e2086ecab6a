//! Room in the journal that is already the store's own.
//!
//! Volumes and objects may share a disk. When volumes have filled it, deleting them takes writes to the store, and those
//! need room that nothing else on the disk can take. So the blocks behind the end of the newest journal are allocated
//! before they are needed: appending to the journal is all that a write does at once. What the database does later,
//! moving content from journals to tables, can wait until there is room (see [`super::workers`]).
//!
//! The database creates a journal with a length far behind its content, and cuts it at its content when it is opened
//! again: that would give the blocks in between back. So the length of a new journal is set to its content at once; blocks
//! behind the length of a file stay with it.

use std::path::Path;

use super::journal;

/// Blocks are allocated this far ahead of the end of the journal.
const AHEAD: u64 = 16 << 20;
/// The least that is worth asking for on a disk that is full already.
const LEAST: u64 = 64 << 10;

/// How far the newest journal can be written without the disk.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    journal: u64,
    /// Where the next batch goes.
    position: u64,
    /// Up to where blocks are allocated.
    end: u64,
}

impl Reserve {
    /// Allocates as much as there is. A filesystem that cannot do so gives a reserve of nothing. Only between two
    /// batches, because the journal gets another length.
    pub fn new(database: &Path) -> Self {
        let Ok(journals) = journal::journals(database) else { return Self::default() };
        let Some((number, path)) = journals.last() else { return Self::default() };
        let position = match journal::trim(path) {
            Ok(position) => position,
            Err(why) => {
                tracing::warn!(%why, "no room can be kept in the journal of the store");
                return Self::default();
            }
        };
        let mut reserve = Self { journal: *number, position, end: position };
        reserve.extend(database, AHEAD);
        reserve
    }

    /// Bytes that can be written whatever the disk does.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// Notes a batch, and allocates more if half of the reserve is gone and the disk has some to give.
    pub fn wrote(&mut self, bytes: u64, database: &Path, free: u64) {
        self.position += bytes;
        if journal::path(database, self.journal + 1).exists() {
            *self = Self::new(database);
        } else if self.left() < AHEAD / 2 && free > AHEAD {
            self.extend(database, AHEAD);
        }
    }

    /// Takes blocks that were just given up for this.
    pub fn take(&mut self, bytes: u64, database: &Path) {
        self.extend(database, self.left() + bytes);
    }

    /// Allocates up to so many bytes ahead, as many as there are.
    fn extend(&mut self, database: &Path, ahead: u64) {
        let path = journal::path(database, self.journal);
        let (mut got, mut step) = (0, ahead);
        while step >= LEAST && got < ahead {
            match bowline_host::real::preallocate(&path, self.position, got + step) {
                Ok(()) => got += step,
                Err(_) => step /= 2,
            }
            step = step.min(ahead - got);
        }
        self.end = self.end.max(self.position + got);
    }
}
