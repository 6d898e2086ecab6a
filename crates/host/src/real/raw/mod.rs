//! The few calls that no crate offers in a safe form: loop device and filesystem ioctls, mount_setattr(2),
//! statmount(2), seccomp(2), bpf(2), malloc_trim(3), and waiting for a file descriptor that is no socket.
//!
//! This is the only module of the workspace with unsafe code. Each call takes open files and plain values.
#![expect(unsafe_code, reason = "these calls have no safe wrapper in rustix, nix or tokio")]

mod bpf;
mod confine;
mod extents;
mod filesystems;
mod heap;
mod loops;
mod statmount;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(super) use bpf::{attach_device_program, load_device_program};
pub(super) use confine::{
    close_inherited, default_action, heed_signals, install_filter, lead_session, new_session_keyring,
};
pub(super) use extents::{Mapped, map_extents};
pub(super) use filesystems::{freeze, thaw, xfs_size};
pub(super) use heap::trim_heap;
pub(super) use loops::{
    LO_FLAGS_DIRECT_IO, LO_FLAGS_READ_ONLY, loop_add, loop_clear, loop_configure, loop_free, loop_identity,
    loop_keep, loop_remove, loop_set_capacity,
};
pub(super) use statmount::{RawMount, stat_mount};

/// Which options a mount gets; it keeps those that it has.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::real) struct MountOptions {
    pub read_only: bool,
    /// Device nodes are files that cannot be opened.
    pub no_devices: bool,
    /// Programs run as who starts them.
    pub no_setuid: bool,
}

/// Adds options to a mount, with everything below it if `recursive`.
pub(in crate::real) fn add_options(
    mount: impl AsFd,
    options: MountOptions,
    recursive: bool,
) -> Result<(), Errno> {
    const HERE: &CStr = c"";
    let MountOptions { read_only, no_devices, no_setuid } = options;
    let bit = |wanted: bool, bit: u64| if wanted { bit } else { 0 };
    let attr_set = bit(read_only, libc::MOUNT_ATTR_RDONLY)
        | bit(no_devices, libc::MOUNT_ATTR_NODEV)
        | bit(no_setuid, libc::MOUNT_ATTR_NOSUID);
    let attributes = libc::mount_attr { attr_set, attr_clr: 0, propagation: 0, userns_fd: 0 };
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

/// Makes a mount read-only, with everything below it if `recursive`, and leaves its other options alone.
pub(in crate::real) fn set_read_only(mount: impl AsFd, recursive: bool) -> Result<(), Errno> {
    add_options(mount, MountOptions { read_only: true, ..MountOptions::default() }, recursive)
}

/// Completes when a process, given by its descriptor, has ended.
pub(in crate::real) async fn process_end(process: OwnedFd) -> io::Result<()> {
    // SAFETY: an OwnedFd is open, and stays the same descriptor until the AsyncFd drops it.
    let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?;
    process.readable().await.map(drop)
}

/// Readiness of any open file that the kernel can watch, such as the outer end of a terminal.
pub(in crate::real) fn watched(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: as above.
    unsafe { AsyncFd::register(file) }.map_err(Into::into)
}
