//! The socket: accepts streams from the host and runs the services on them.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::{BoxStream, Listener};
use bowline_proto::csi::v1::controller_server::ControllerServer;
use bowline_proto::csi::v1::identity_server::IdentityServer;
use bowline_proto::csi::v1::node_server::NodeServer;
use futures::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::config::LocalConfig;
use super::controller::ControllerService;
use super::driver::Driver;
use super::error::VolumeError;
use super::identity::IdentityService;
use super::node::NodeService;

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
    #[error("serve the CSI socket")]
    Serve(#[from] tonic::transport::Error),
    #[error("socket stopped accepting connections")]
    Closed,
}

/// Serves the driver until `stop`, then lets running operations end.
pub async fn run(
    host: Host,
    config: LocalConfig,
    endpoint: &Path,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let driver = Driver::open(host.clone(), config).await.map_err(RunError::Pool)?;
    let listener = host.net.listen(endpoint).await;
    let listener = listener.map_err(|source| RunError::Listen { path: endpoint.to_owned(), source })?;
    tracing::info!(endpoint = %endpoint.display(), "serving");
    let served = Server::builder()
        .add_service(IdentityServer::new(IdentityService(driver.clone())))
        .add_service(ControllerServer::new(ControllerService(driver.clone())))
        .add_service(NodeServer::new(NodeService(driver.clone())))
        .serve_with_incoming_shutdown(accepted(listener), stop.cancelled())
        .await;
    driver.settle().await;
    served?;
    if stop.is_cancelled() { Ok(()) } else { Err(RunError::Closed) }
}

/// Connections as they arrive. Ends when accepting keeps failing.
fn accepted(listener: Box<dyn Listener>) -> impl Stream<Item = io::Result<Connection>> {
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

/// A stream of the host in the form tonic takes.
struct Connection(BoxStream);

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
