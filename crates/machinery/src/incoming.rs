//! Connections to a socket of the host, in the form in which tonic serves them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_host::net::{BoxStream, Listener};
use futures::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// Accept failures in a row after which the socket counts as broken.
const FAILURES_MAX: u32 = 10;
/// Wait after a failed accept; running out of file descriptors passes.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// Connections as they arrive. Ends when accepting keeps failing.
pub fn accepted(listener: Box<dyn Listener>) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold(listener, |mut listener| async move {
        for _ in 0..FAILURES_MAX {
            match listener.accept().await {
                Ok(stream) => return Some((Ok(Connection(stream)), listener)),
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
pub struct Connection(BoxStream);

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
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
