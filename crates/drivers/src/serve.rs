//! A socket of the host in the form tonic serves on.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_host::net::{BoxStream, Listener};
use futures::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::authority::Requests;
use crate::error::VolumeError;
use crate::metrics::MetricsError;

/// Accept failures in a row after which the socket counts as broken.
const FAILURES_MAX: u32 = 10;
/// Wait after a failed accept; running out of file descriptors passes.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("open the volume pool")]
    Pool(#[source] VolumeError),
    #[error("listen on `{path}`")]
    Listen { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error("serve the CSI socket")]
    Serve(#[from] tonic::transport::Error),
    #[error("socket stopped accepting connections")]
    Closed,
}

/// Connections as they arrive. Ends when accepting keeps failing.
pub fn accepted(listener: Box<dyn Listener>) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold(listener, |mut listener| async move {
        for _ in 0..FAILURES_MAX {
            match listener.accept().await {
                Ok(stream) => {
                    return Some((Ok(Connection { stream, requests: Requests::default() }), listener));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
        }
        None
    })
}

/// A stream of the host in the form tonic takes.
pub struct Connection {
    stream: BoxStream,
    /// What arrives, looked at for names that the HTTP library would reject.
    requests: Requests,
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(arrived) = buffer.filled_mut().get_mut(before..) {
            self.requests.rewrite(arrived);
        }
        read
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
