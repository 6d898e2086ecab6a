//! The few calls that no crate offers in a safe form: loop device ioctls, mount_setattr(2), and waiting for a
//! file descriptor that is no socket.
//!
//! This is the only module of the workspace with unsafe code. Each call takes open files and plain values.
#![expect(unsafe_code, reason = "these calls have no safe wrapper in rustix, nix or tokio")]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(super) const LO_FLAGS_READ_ONLY: u32 = 1;
pub(super) const LO_FLAGS_AUTOCLEAR: u32 = 4;
pub(super) const LO_FLAGS_DIRECT_IO: u32 = 16;

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
    nix::ioctl_none_bad!(clear_fd, 0x4C01);
    nix::ioctl_none_bad!(set_capacity, 0x4C07);
    nix::ioctl_write_ptr_bad!(set_status, 0x4C04, LoopInfo);
    nix::ioctl_read_bad!(get_status, 0x4C05, LoopInfo);
    nix::ioctl_write_ptr_bad!(configure, 0x4C0A, LoopConfig);
    nix::ioctl_none_bad!(freeze, nix::request_code_readwrite!(b'X', 119, size_of::<nix::libc::c_int>()));
    nix::ioctl_none_bad!(thaw, nix::request_code_readwrite!(b'X', 120, size_of::<nix::libc::c_int>()));
}

/// The number of a free loop device; another process may take it first.
pub(super) fn loop_free(control: &File) -> Result<u32, Errno> {
    // SAFETY: the descriptor is open, and LOOP_CTL_GET_FREE takes no argument.
    let number = unsafe { call::get_free(control.as_raw_fd()) }?;
    u32::try_from(number).map_err(|_| Errno::ERANGE)
}

/// Binds a loop device to a backing file; `EBUSY` when it has one already.
pub(super) fn loop_configure(device: &File, backing: &File, flags: u32) -> Result<(), Errno> {
    let fd = u32::try_from(backing.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let info = LoopInfo { flags, ..LoopInfo::ZERO };
    let config = LoopConfig { fd, block_size: 0, info, reserved: [0; 8] };
    // SAFETY: both descriptors are open; LOOP_CONFIGURE reads one LoopConfig, which outlives the call.
    unsafe { call::configure(device.as_raw_fd(), &config) }.map(drop)
}

/// Unbinds a loop device, or lets it unbind itself when its last user closes it.
pub(super) fn loop_clear(device: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and LOOP_CLR_FD takes no argument.
    unsafe { call::clear_fd(device.as_raw_fd()) }.map(drop)
}

/// Takes over the current size of the backing file.
pub(super) fn loop_set_capacity(device: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and LOOP_SET_CAPACITY takes no argument.
    unsafe { call::set_capacity(device.as_raw_fd()) }.map(drop)
}

/// Device and inode of the backing file.
pub(super) fn loop_identity(device: &File) -> Result<(u64, u64), Errno> {
    let info = loop_info(device)?;
    Ok((info.device, info.inode))
}

/// Keeps a loop device that was told to unbind itself on last close.
pub(super) fn loop_keep(device: &File) -> Result<(), Errno> {
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

/// Writes out and stops the filesystem that holds a file; `EBUSY` when it is stopped already.
pub(super) fn freeze(file: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and FIFREEZE ignores its argument.
    unsafe { call::freeze(file.as_raw_fd()) }.map(drop)
}

/// Lets the filesystem that holds a file go on; `EINVAL` when it was not stopped.
pub(super) fn thaw(file: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and FITHAW ignores its argument.
    unsafe { call::thaw(file.as_raw_fd()) }.map(drop)
}

/// Makes a mount read-only, with everything below it if `recursive`, and leaves its other options alone.
pub(super) fn set_read_only(mount: impl AsFd, recursive: bool) -> Result<(), Errno> {
    const HERE: &CStr = c"";
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, the path is a static C string, and the kernel reads one mount_attr of
    // exactly the given size, which outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            HERE.as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(result).map(drop)
}

/// Completes when a process, given by its descriptor, has ended.
pub(super) async fn process_end(process: OwnedFd) -> io::Result<()> {
    // SAFETY: an OwnedFd is open, and stays the same descriptor until the AsyncFd drops it.
    let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?;
    process.readable().await.map(drop)
}
