//! Calls of processes that are about to be a container's.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use rustix::process::Signal;

/// After standard input, output and error.
const FIRST_INHERITED: libc::c_uint = 3;

/// The kernel has so many.
const SIGNALS: libc::c_int = 64;

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

/// Gives every signal that this process was told to ignore its default action again, for all that it starts. Only those
/// that are ignored outlive an exec. That of broken pipes stays as it is: the standard library ignores it here, and no
/// longer in what it starts.
pub(in crate::real) fn heed_signals() {
    for signal in (1..=SIGNALS).filter(|signal| *signal != libc::SIGPIPE) {
        if action(signal, None).is_ok_and(|action| action[0] == libc::SIG_IGN as u64) {
            // That of SIGKILL and SIGSTOP cannot be changed, and is never this one.
            let _ = action(signal, Some([0; 4]));
        }
    }
}

/// The kernel's action of a signal: handler, flags, restorer, mask. Not through the C library, which keeps quiet about
/// those that it uses itself.
fn action(signal: libc::c_int, new: Option<[u64; 4]>) -> Result<[u64; 4], Errno> {
    let mut old = [0_u64; 4];
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads and writes one action each, of four words on all 64-bit machines, which outlive the call.
    // No handler is ever installed.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old.as_mut_ptr(), size_of::<u64>()) };
    Errno::result(result).map(|_| old)
}

/// Lets a signal do what it does by default from now on, even if this process listens to it.
pub(in crate::real) fn default_action(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: no handler is installed.
    let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Installs a seccomp filter for this thread and all that it starts. With `logged`, the kernel tells its audit log of each
/// call that the filter refuses, as far as `kernel.seccomp.actions_logged` has it.
pub(in crate::real) fn install_filter(filter: &[libc::sock_filter], logged: bool) -> io::Result<()> {
    let len = libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    let flags = if logged { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 };
    // SAFETY: the kernel reads `len` instructions, which outlive the call, and writes none.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ignored(signal: libc::c_int) -> bool {
        action(signal, None).unwrap()[0] == libc::SIG_IGN as u64
    }

    /// As `nohup` starts programs.
    #[test]
    fn ignored_signals_are_heeded_again() {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let broken_pipes = is_ignored(libc::SIGPIPE);
        assert!(is_ignored(libc::SIGHUP));
        heed_signals();
        assert_eq!((is_ignored(libc::SIGHUP), is_ignored(libc::SIGPIPE)), (false, broken_pipes));
    }
}
