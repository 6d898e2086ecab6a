//! Mounted filesystems (linux/fs.h, and xfs_fs.h of xfsprogs).

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc::c_int;

/// The first form of `struct xfs_fsop_geom`; only what is asked for has a name.
#[repr(C)]
struct XfsGeometry {
    block_size: u32,
    sizes: [u32; 7],
    data_blocks: u64,
    others: [u64; 9],
}

mod call {
    use super::{XfsGeometry, c_int};
    nix::ioctl_none_bad!(freeze, nix::request_code_readwrite!(b'X', 119, size_of::<c_int>()));
    nix::ioctl_none_bad!(thaw, nix::request_code_readwrite!(b'X', 120, size_of::<c_int>()));
    nix::ioctl_read!(xfs_geometry, b'X', 100, XfsGeometry);
}

/// Writes out and stops the filesystem that holds a file; `EBUSY` when it is stopped already.
pub(in crate::real) fn freeze(file: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and FIFREEZE ignores its argument.
    unsafe { call::freeze(file.as_raw_fd()) }.map(drop)
}

/// Lets the filesystem that holds a file go on; `EINVAL` when it was not stopped.
pub(in crate::real) fn thaw(file: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and FITHAW ignores its argument.
    unsafe { call::thaw(file.as_raw_fd()) }.map(drop)
}

/// Bytes of the mounted xfs that holds a file.
pub(in crate::real) fn xfs_size(file: &File) -> Result<u64, Errno> {
    let mut geometry = XfsGeometry { block_size: 0, sizes: [0; 7], data_blocks: 0, others: [0; 9] };
    // SAFETY: the descriptor is open; XFS_IOC_FSGEOMETRY_V1 fills one XfsGeometry, which outlives the call.
    unsafe { call::xfs_geometry(file.as_raw_fd(), &mut geometry) }?;
    geometry.data_blocks.checked_mul(geometry.block_size.into()).ok_or(Errno::EOVERFLOW)
}
