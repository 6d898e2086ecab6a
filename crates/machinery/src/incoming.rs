//! Connections to a socket of the host, in the form in which tonic serves them.

mod authority;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bowline_host::net::{BoxStream, Listener};
use futures::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use authority::Filter;

/// Accept failures in a row after which the socket counts as broken.
const FAILURES_MAX: u32 = 10;
/// Wait after a failed accept; running out of file descriptors passes.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that are read at a time.
const READ: usize = 4 << 10;

/// Connections as they arrive. Ends when accepting keeps failing.
pub fn accepted(listener: Box<dyn Listener>) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold(listener, |mut listener| async move {
        for _ in 0..FAILURES_MAX {
            match listener.accept().await {
                Ok(stream) => return Some((Ok(Connection { stream, filter: Filter::default() }), listener)),
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
        }
        None
    })
}

/// A stream of the host in the form that tonic takes.
pub struct Connection {
    stream: BoxStream,
    filter: Filter,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.filter.ready.is_empty() {
            let mut bytes = [0; READ];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                this.filter.end();
                break;
            }
            this.filter.push(read.filled());
        }
        let count = buffer.remaining().min(this.filter.ready.len());
        buffer.put_slice(&this.filter.ready[..count]);
        this.filter.ready.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
