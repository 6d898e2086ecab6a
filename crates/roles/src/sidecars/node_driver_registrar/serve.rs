//! The kubelet's questions, and the connections they come over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bowline_host::net::{BoxStream, Listener};
use bowline_proto::pluginregistration::registration_server::Registration;
use bowline_proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use futures::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

/// What kind of plugin this is.
const CSI_PLUGIN_TYPE: &str = "CSIPlugin";
/// The class of CSI versions that the kubelet checks for.
const SUPPORTED_VERSIONS: [&str; 1] = ["1.0.0"];
/// Accept failures in a row after which the socket counts as broken.
const FAILURES_MAX: u32 = 10;
/// Wait after a failed accept; running out of file descriptors passes.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// Answers the kubelet for one driver.
pub(super) struct Registrar {
    pub(super) driver: String,
    /// The driver's socket as the kubelet reaches it.
    pub(super) endpoint: String,
    /// Where a refusal goes.
    pub(super) refusal: watch::Sender<Option<String>>,
}

#[async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: CSI_PLUGIN_TYPE.into(),
            name: self.driver.clone(),
            endpoint: self.endpoint.clone(),
            supported_versions: SUPPORTED_VERSIONS.map(String::from).into(),
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = status.into_inner();
        if status.plugin_registered {
            tracing::info!(driver = self.driver, "the kubelet has registered the driver");
        } else {
            self.refusal.send_replace(Some(status.error));
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

/// Connections as they arrive. Ends when accepting keeps failing.
pub(super) fn accepted(listener: Box<dyn Listener>) -> impl Stream<Item = io::Result<Connection>> {
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
pub(super) struct Connection(BoxStream);

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
