//! The way to a kubelet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Net;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

/// Upstream's default of `--kubelet-preferred-address-types`.
pub const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// A kubelet that does not pick up in this time is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// How this server reaches kubelets.
pub struct NodeProxy {
    net: Arc<dyn Net>,
    tls: Arc<ClientConfig>,
    /// Types of node addresses, best first.
    pub(super) address_types: Vec<String>,
}

impl NodeProxy {
    /// `tls` holds the certificate that kubelets know this server by, see [`super::kubelet_client`].
    pub fn new(net: Arc<dyn Net>, tls: Arc<ClientConfig>, address_types: &[&str]) -> Self {
        let address_types = address_types.iter().map(|one| (*one).to_owned()).collect();
        Self { net, tls, address_types }
    }

    /// Sends one request over a connection of its own, which the answer keeps open.
    pub(super) async fn send(
        &self,
        (host, port): (&str, u16),
        request: Request<Empty<Bytes>>,
    ) -> io::Result<Response<Incoming>> {
        let reach = async {
            let address =
                if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            let stream = self.net.connect_tcp(&address).await?;
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)
        };
        let (mut sender, connection) = tokio::time::timeout(PATIENCE, reach).await??;
        // Ends when both the answer's body and the sender are gone, or the kubelet closes it.
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to a kubelet ended");
            }
        });
        sender.send_request(request).await.map_err(io::Error::other)
    }
}
