//! Loop devices (linux/loop.h).

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

pub(in crate::real) const LO_FLAGS_READ_ONLY: u32 = 1;
pub(in crate::real) const LO_FLAGS_AUTOCLEAR: u32 = 4;
pub(in crate::real) const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    const ZERO: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

mod call {
    use super::{LoopConfig, LoopInfo};
    nix::ioctl_none_bad!(get_free, 0x4C82);
    nix::ioctl_write_int_bad!(add, 0x4C80);
    nix::ioctl_write_int_bad!(remove, 0x4C81);
    nix::ioctl_none_bad!(clear_fd, 0x4C01);
    nix::ioctl_none_bad!(set_capacity, 0x4C07);
    nix::ioctl_write_ptr_bad!(set_status, 0x4C04, LoopInfo);
    nix::ioctl_read_bad!(get_status, 0x4C05, LoopInfo);
    nix::ioctl_write_ptr_bad!(configure, 0x4C0A, LoopConfig);
}

/// The number of a free loop device; another process may take it first.
pub(in crate::real) fn loop_free(control: &File) -> Result<u32, Errno> {
    // SAFETY: the descriptor is open, and LOOP_CTL_GET_FREE takes no argument.
    let number = unsafe { call::get_free(control.as_raw_fd()) }?;
    u32::try_from(number).map_err(|_| Errno::ERANGE)
}

/// Makes one more loop device and returns its number.
pub(in crate::real) fn loop_add(control: &File) -> Result<u32, Errno> {
    const ANY: i32 = -1;
    // SAFETY: the descriptor is open, and LOOP_CTL_ADD takes a number, or a negative one for the next free.
    let number = unsafe { call::add(control.as_raw_fd(), ANY) }?;
    u32::try_from(number).map_err(|_| Errno::ERANGE)
}

/// Takes a free loop device out of the kernel; `EBUSY` for one that is in use.
pub(in crate::real) fn loop_remove(control: &File, number: u32) -> Result<(), Errno> {
    let number = i32::try_from(number).map_err(|_| Errno::ERANGE)?;
    // SAFETY: the descriptor is open, and LOOP_CTL_REMOVE takes a number.
    unsafe { call::remove(control.as_raw_fd(), number) }.map(drop)
}

/// Bytes of a sector of every loop device. Left to the kernel it would be what direct I/O to the image needs,
/// which grows from 512 to 4096 bytes on xfs when the image shares its first block with a copy; from then on the
/// filesystem in it could not be mounted any more. Where 512 is too little, the kernel does without direct I/O.
const SECTOR: u32 = 512;

/// Binds a loop device to a backing file; `EBUSY` when it has one already.
pub(in crate::real) fn loop_configure(device: &File, backing: &File, flags: u32) -> Result<(), Errno> {
    let fd = u32::try_from(backing.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let info = LoopInfo { flags, ..LoopInfo::ZERO };
    let config = LoopConfig { fd, block_size: SECTOR, info, reserved: [0; 8] };
    // SAFETY: both descriptors are open; LOOP_CONFIGURE reads one LoopConfig, which outlives the call.
    unsafe { call::configure(device.as_raw_fd(), &config) }.map(drop)
}

/// Unbinds a loop device, or lets it unbind itself when its last user closes it.
pub(in crate::real) fn loop_clear(device: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and LOOP_CLR_FD takes no argument.
    unsafe { call::clear_fd(device.as_raw_fd()) }.map(drop)
}

/// Takes over the current size of the backing file.
pub(in crate::real) fn loop_set_capacity(device: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and LOOP_SET_CAPACITY takes no argument.
    unsafe { call::set_capacity(device.as_raw_fd()) }.map(drop)
}

/// Device and inode of the backing file.
pub(in crate::real) fn loop_identity(device: &File) -> Result<(u64, u64), Errno> {
    let info = loop_info(device)?;
    Ok((info.device, info.inode))
}

/// Keeps a loop device that was told to unbind itself on last close.
pub(in crate::real) fn loop_keep(device: &File) -> Result<(), Errno> {
    let mut info = loop_info(device)?;
    info.flags &= !LO_FLAGS_AUTOCLEAR;
    // SAFETY: the descriptor is open; LOOP_SET_STATUS64 reads one LoopInfo, which outlives the call.
    unsafe { call::set_status(device.as_raw_fd(), &info) }.map(drop)
}

fn loop_info(device: &File) -> Result<LoopInfo, Errno> {
    let mut info = LoopInfo::ZERO;
    // SAFETY: the descriptor is open; LOOP_GET_STATUS64 fills one LoopInfo, which outlives the call.
    unsafe { call::get_status(device.as_raw_fd(), &mut info) }?;
    Ok(info)
}
