//! Programs of the kind that a control group of version 2 decides about devices with.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
/// Programs of the groups above keep deciding, too.
const BPF_F_ALLOW_MULTI: u32 = 2;

/// The beginning of the kernel's `union bpf_attr` for loading. What is left out is zero.
#[repr(C)]
#[derive(Default)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

#[repr(C)]
struct Attach {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
}

/// Loads a device program, given as encoded instructions.
pub(in crate::real) fn load_device_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0";
    let attributes = Load {
        prog_type: BPF_PROG_TYPE_CGROUP_DEVICE,
        insn_cnt: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        insns: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..Load::default()
    };
    // SAFETY: the kernel reads the attributes, of exactly this size, and the instructions and the name that they point
    // to, all of which outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<Load>()) };
    let fd = i32::try_from(Errno::result(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened this descriptor for us, closed on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets a loaded program decide about devices in a control group. It stays until the group goes.
pub(in crate::real) fn attach_device_program(group: impl AsFd, program: impl AsFd) -> io::Result<()> {
    let number = |fd: std::os::fd::BorrowedFd<'_>| u32::try_from(fd.as_raw_fd()).map_err(io::Error::other);
    let attributes = Attach {
        target_fd: number(group.as_fd())?,
        attach_bpf_fd: number(program.as_fd())?,
        attach_type: BPF_CGROUP_DEVICE,
        attach_flags: BPF_F_ALLOW_MULTI,
    };
    // SAFETY: the kernel reads the attributes, of exactly this size; both descriptors are open.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, &raw const attributes, size_of::<Attach>()) };
    Ok(Errno::result(result).map(drop)?)
}
