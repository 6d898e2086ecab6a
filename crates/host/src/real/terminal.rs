//! The outer end of a terminal.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::raw;
use crate::containers::Terminal;

/// A new terminal, its outer and its inner end. No process inherits either by accident: whoever has the outer end
/// reads and writes for the program.
pub(super) fn pair() -> io::Result<(OwnedFd, File)> {
    let outer = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&outer)?;
    unlockpt(&outer)?;
    let mut inner = OpenOptions::new();
    inner.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let inner = inner.open(ptsname_r(&outer)?)?;
    Ok((outer.into(), inner))
}

/// Reads what a program writes to its terminal and writes what it reads from it; clones share it.
#[derive(Clone)]
pub(super) struct Screen(Arc<AsyncFd<OwnedFd>>);

impl Screen {
    pub fn new(outer: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&outer, true)?;
        Ok(Self(Arc::new(raw::watched(outer)?)))
    }
}

impl Terminal for Screen {
    fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.get_ref(), size)?)
    }
}

impl AsyncRead for Screen {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let read = guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), buffer.initialize_unfilled())?));
            match read {
                Ok(Ok(length)) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                // How the kernel says that nobody has the other end open any more.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Screen {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            if let Ok(written) = guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A terminal has no end of input of its own; whoever types sends one.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
