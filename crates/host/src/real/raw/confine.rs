//! Calls of processes that are about to be a container's.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use rustix::process::Signal;

/// After standard input, output and error.
const FIRST_INHERITED: libc::c_uint = 3;

const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;

/// Closes everything that this process was started with, other than its standard input, output and error. To be called
/// before anything is opened.
pub(in crate::real) fn close_inherited() -> io::Result<()> {
    // SAFETY: at the beginning of a process nothing owns any of these descriptors.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST_INHERITED, libc::c_uint::MAX, 0 as libc::c_uint)
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Installs a seccomp filter for this thread and all that it starts.
pub(in crate::real) fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let len = libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads `len` instructions, which outlive the call, and writes none.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0 as libc::c_uint, &raw const program)
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Gives this thread, and what it starts, an empty keyring in place of the one that it was started with.
pub(in crate::real) fn new_session_keyring() -> io::Result<()> {
    // SAFETY: the call takes a number and a null pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>())
    };
    match Errno::result(result) {
        // A kernel without keys has none to give away.
        Ok(_) | Err(Errno::ENOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes the program lead a session, on its standard input if that is a terminal, and end with the thread that starts
/// it. The program is born in another process namespace than that thread.
pub(in crate::real) fn lead_session(command: &mut Command, on_terminal: bool) {
    let lead = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent in another namespace has no number. Process 1 is who takes in orphans.
        if rustix::process::getppid().is_some() {
            return Err(io::Error::from(Errno::ESRCH));
        }
        rustix::process::setsid()?;
        if on_terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec this makes system calls only; it takes no lock and no memory.
    unsafe { command.pre_exec(lead) };
}
