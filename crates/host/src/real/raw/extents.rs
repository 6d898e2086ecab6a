//! Where the parts of a file lie on disk (linux/fiemap.h).

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

/// Extents asked for at once.
const BATCH: usize = 256;

const WRITE_OUT_FIRST: u32 = 1;

/// The address is missing or says nothing about the bytes: unknown, pending, encoded, encrypted, not aligned,
/// inline, or a tail that several files share.
const NO_ADDRESS: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
/// Reserved and never written: reads as zeros.
const UNWRITTEN: u32 = 0x800;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` with room for a batch.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// The call is numbered by the head of the structure, without the extents behind it.
const HEAD: usize = 32;

mod call {
    nix::ioctl_readwrite_bad!(map, nix::request_code_readwrite!(b'f', 11, super::HEAD), super::Map);
}

/// A part of a file that holds data.
#[derive(Debug, Clone, Copy)]
pub(in crate::real) struct Mapped {
    pub start: u64,
    pub end: u64,
    /// Where `start` lies on disk, if that is known and means the bytes themselves.
    pub address: Option<u64>,
}

/// A batch of the data at or after `start`, and where to ask next; nothing there when the file has no more.
pub(in crate::real) fn map_extents(file: &File, start: u64) -> Result<(Vec<Mapped>, Option<u64>), Errno> {
    let none =
        Extent { logical: 0, physical: 0, length: 0, reserved: [0; 2], flags: 0, reserved_too: [0; 3] };
    let mut map = Map {
        start,
        length: u64::MAX - start,
        flags: WRITE_OUT_FIRST,
        mapped: 0,
        count: BATCH as u32,
        reserved: 0,
        extents: [none; BATCH],
    };
    // SAFETY: the descriptor is open; FS_IOC_FIEMAP fills at most `count` extents of the one Map, which outlives
    // the call.
    unsafe { call::map(file.as_raw_fd(), &mut map) }?;
    let found = map.extents.get(..map.mapped as usize).unwrap_or_default();
    let next = found.last().map(|last| last.logical.saturating_add(last.length));
    let written = found.iter().filter(|extent| extent.flags & UNWRITTEN == 0);
    let mapped = written.map(|extent| Mapped {
        start: extent.logical,
        end: extent.logical.saturating_add(extent.length),
        address: (extent.flags & NO_ADDRESS == 0).then_some(extent.physical),
    });
    Ok((mapped.collect(), next))
}
