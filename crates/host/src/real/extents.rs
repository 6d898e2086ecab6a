//! Which parts of a file hold data.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::SeekFrom as Sparse;
use rustix::io::Errno;

use super::disk::open_regular;
use crate::disk::Extent;
use crate::stretches::Stretches;

pub(super) fn allocated(path: &Path, from: u64, max: usize) -> io::Result<Vec<Extent>> {
    let file = open_regular(path)?;
    // Until then the filesystem may not know yet where the data will be.
    file.sync_all()?;
    let mut extents = Stretches::new(max);
    let mut position = from;
    while let Some((start, end)) = next_data(&file, position)? {
        if !extents.add(start, end) {
            break;
        }
        position = end;
    }
    Ok(extents.into_found())
}

/// The next stretch of data at or after a position; nothing when only a hole is left.
pub(super) fn next_data(file: &File, position: u64) -> io::Result<Option<(u64, u64)>> {
    match rustix::fs::seek(file, Sparse::Data(position)) {
        Ok(start) => Ok(Some((start, rustix::fs::seek(file, Sparse::Hole(start))?))),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
