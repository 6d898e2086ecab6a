//! Where two files differ, without reading what they share.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nix::errno::Errno;

use super::disk::open_regular;
use super::extents::next_data;
use super::raw::{self, Mapped};
use crate::disk::Extent;
use crate::stretches::Stretches;

/// Bytes that are read from each file at once.
const CHUNK: u64 = 1 << 20;

pub(super) fn changed(
    base: &Path,
    target: &Path,
    block: u64,
    from: u64,
    max: usize,
) -> io::Result<Vec<Extent>> {
    if block == 0 {
        return Err(Errno::EINVAL.into());
    }
    let (mut base, mut target) = (Layout::open(base)?, Layout::open(target)?);
    // Addresses of different disks say nothing about each other.
    let comparable = base.file.metadata()?.dev() == target.file.metadata()?.dev();
    let end = base.length.max(target.length);
    let mut found = Stretches::new(max);
    let mut position = from - from % block;
    while position < end {
        let (one, other) = (base.at(position)?, target.at(position)?);
        let until = one.end.min(other.end).min(end);
        let equal = match (one.lies, other.lies) {
            (Lies::Nowhere, Lies::Nowhere) => true,
            (Lies::At(one), Lies::At(other)) => comparable && one == other,
            _ => false,
        };
        if !equal && !compare(&base.file, &target.file, position..until, block, &mut found)? {
            break;
        }
        position = until;
    }
    Ok(found.into_found())
}

/// Reads and compares a range. False when nothing more can be added.
fn compare(
    base: &File,
    target: &File,
    range: std::ops::Range<u64>,
    block: u64,
    found: &mut Stretches,
) -> io::Result<bool> {
    let mut position = range.start;
    while position < range.end {
        let length = CHUNK.min(range.end - position);
        let (one, other) = (read(base, position, length)?, read(target, position, length)?);
        let mut start = 0;
        while start < length {
            let unit = position + start - (position + start) % block;
            let end = length.min(unit.saturating_add(block) - position);
            let part = start as usize..end as usize;
            if one.get(part.clone()) != other.get(part) && !found.add(unit, unit.saturating_add(block)) {
                return Ok(false);
            }
            start = end;
        }
        position += length;
    }
    Ok(true)
}

/// What lies behind the end of a file reads as zeros.
fn read(file: &File, position: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Where bytes of a file lie on disk.
#[derive(Clone, Copy)]
enum Lies {
    /// In a hole: they read as zeros.
    Nowhere,
    At(u64),
    /// They have to be read.
    Somewhere,
}

/// What holds from a position up to `end`.
struct Piece {
    end: u64,
    lies: Lies,
}

struct Layout {
    file: File,
    length: u64,
    /// What is known of the parts ahead, and up to where.
    ahead: VecDeque<Mapped>,
    known_to: u64,
    /// Whether the filesystem tells addresses.
    tells: bool,
}

impl Layout {
    fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        file.sync_all()?;
        let length = file.metadata()?.len();
        Ok(Self { file, length, ahead: VecDeque::new(), known_to: 0, tells: true })
    }

    /// What lies at a position; positions only grow.
    fn at(&mut self, position: u64) -> io::Result<Piece> {
        loop {
            while self.ahead.front().is_some_and(|part| part.end <= position) {
                self.ahead.pop_front();
            }
            match self.ahead.front() {
                Some(part) if part.start > position => {
                    return Ok(Piece { end: part.start, lies: Lies::Nowhere });
                }
                Some(part) => {
                    let lies = part.address.map(|address| Lies::At(address + (position - part.start)));
                    return Ok(Piece { end: part.end, lies: lies.unwrap_or(Lies::Somewhere) });
                }
                None if position.max(self.known_to) >= self.length => {
                    return Ok(Piece { end: u64::MAX, lies: Lies::Nowhere });
                }
                None => self.look_ahead(position.max(self.known_to))?,
            }
        }
    }

    fn look_ahead(&mut self, from: u64) -> io::Result<()> {
        if self.tells {
            match raw::map_extents(&self.file, from) {
                Ok((parts, next)) => {
                    self.ahead.extend(parts);
                    self.known_to = next.unwrap_or(u64::MAX);
                    return Ok(());
                }
                Err(Errno::EOPNOTSUPP | Errno::ENOTTY) => self.tells = false,
                Err(errno) => return Err(errno.into()),
            }
        }
        let part = next_data(&self.file, from)?;
        self.known_to = part.map_or(u64::MAX, |(_, end)| end);
        self.ahead.extend(part.map(|(start, end)| Mapped { start, end, address: None }));
        Ok(())
    }
}
