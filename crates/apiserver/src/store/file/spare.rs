//! A file of nothing but blocks, given up in steps so that what is being deleted can end.
//!
//! The store writes into blocks of its own (see [`super::reserve`]). When those are used up, too, deletes get a part of
//! this file. And deleting a volume takes a few small files of others: how a container ended, that an image is going. On a
//! disk without a free byte those would fail, and what fills the disk would stay. Others get room only when something is
//! deleted that takes disk, and with a pause between two steps, because what fills the disk may still be running and take
//! the first one.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bowline_host::real;

const NAME: &str = "spare";
const SIZE: u64 = 4 << 20;
const STEP: u64 = 1 << 20;
/// What `st_blocks` counts.
const STAT_BLOCK: u64 = 512;
/// The file is made whole again when this much is free.
const PLENTY: u64 = 64 << 20;
/// Between two steps for others.
const PAUSE: Duration = Duration::from_secs(60);

pub struct Spare {
    path: PathBuf,
    size: u64,
    /// The last step for others.
    given: Option<Instant>,
}

impl Spare {
    /// The file as it was left, or a new one if there is plenty of room.
    pub fn open(dir: &Path) -> Self {
        let path = dir.join(NAME);
        // A length without blocks gives nothing up.
        let size = std::fs::metadata(&path).map_or(0, |found| found.len().min(found.blocks() * STAT_BLOCK));
        let mut spare = Self { path, size, given: None };
        spare.refill(free(dir));
        spare
    }

    /// Bytes that can still be given up.
    pub fn left(&self) -> u64 {
        self.size
    }

    /// Allocates what was given up, once the disk has it.
    pub fn refill(&mut self, free: u64) {
        if self.size >= SIZE || free < PLENTY {
            return;
        }
        let fill = || {
            let file = real::private_file(&self.path)?;
            // The length last: until then a crash leaves a spare that counts as it did before.
            real::preallocate(&self.path, 0, SIZE)?;
            file.set_len(SIZE)
        };
        // Without it a disk may stay full, but nothing is wrong yet.
        match fill() {
            Ok(()) => {
                self.size = SIZE;
                self.given = None;
            }
            Err(error) => tracing::debug!(%error, "no spare room can be kept on the disk of the store"),
        }
    }

    /// Gives a step up for others if the disk has less than that, and the last step is long enough ago.
    pub fn give_to_others(&mut self, free: u64) {
        if free >= STEP || self.given.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        if self.cut(STEP) {
            self.given = Some(Instant::now());
        }
    }

    /// Gives up so many bytes, or what is left of them.
    pub fn cut(&mut self, bytes: u64) -> bool {
        if self.size == 0 {
            return false;
        }
        let size = self.size.saturating_sub(bytes);
        let cut = real::private_file(&self.path).and_then(|file| {
            file.set_len(size)?;
            // Some filesystems hand freed blocks out only then.
            file.sync_all()
        });
        match &cut {
            Ok(()) => {
                self.size = size;
                tracing::warn!(left = size, "the disk is full: gave up spare room so that deletions can end");
            }
            Err(error) => tracing::warn!(%error, "spare room on the disk of the store could not be given up"),
        }
        cut.is_ok()
    }
}

/// Unknown is taken for nothing.
pub fn free(dir: &Path) -> u64 {
    real::free_bytes(dir).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a crash leaves it that came between the length and the blocks.
    #[test]
    fn a_file_without_blocks_is_no_spare() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        let spare = Spare::open(dir.path());
        assert_eq!(spare.left(), SIZE, "the disk of the tests has room and allocates");
        let blocks = std::fs::metadata(&path).unwrap().blocks() * STAT_BLOCK;
        assert!(blocks >= SIZE, "{blocks} bytes are allocated");
    }
}
