//! The way to a kubelet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Net;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::location::Endpoint;
use super::tls::KubeletClient;

/// Upstream's default of `--kubelet-preferred-address-types`.
pub const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// A node that does not pick up in this time is not there, as upstream sees it.
const DIAL: Duration = Duration::from_secs(30);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What a kubelet may say about a failure.
const COMPLAINT_MAX: usize = 4 << 10;

/// Why a kubelet could not be asked, in the words of Go's library, which upstream's users know.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("dial tcp {place}: {why}")]
    Dial { place: String, why: String },
    #[error("net/http: TLS handshake timeout")]
    HandshakeTimeout,
    #[error("tls: {0}")]
    Tls(io::Error),
    /// It closed the connection without an answer.
    #[error("EOF")]
    NoAnswer,
    #[error("{0}")]
    Http(hyper::Error),
}

impl Unreachable {
    fn dial(place: &str, error: &io::Error) -> Self {
        let why = match error.kind() {
            io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
            io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
            io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
            _ => format!("connect: {error}"),
        };
        Self::Dial { place: place.to_owned(), why }
    }
}

impl From<hyper::Error> for Unreachable {
    fn from(error: hyper::Error) -> Self {
        if error.is_incomplete_message() || error.is_canceled() { Self::NoAnswer } else { Self::Http(error) }
    }
}

/// Which kubelets a request goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those whose certificate this server's authority for kubelets has signed, if it has one.
    #[default]
    Verified,
    /// Any, because the client said so.
    Anybody,
}

/// How this server reaches kubelets.
pub struct NodeProxy {
    net: Arc<dyn Net>,
    tls: KubeletClient,
    /// Types of node addresses, best first.
    pub(super) address_types: Vec<String>,
}

impl NodeProxy {
    /// `tls` holds the certificate that kubelets know this server by, see [`super::kubelet_client`].
    pub fn new(net: Arc<dyn Net>, tls: KubeletClient, address_types: &[&str]) -> Self {
        let address_types = address_types.iter().map(|one| (*one).to_owned()).collect();
        Self { net, tls, address_types }
    }

    /// Sends one request over a connection of its own, which the answer keeps open.
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        request: Request<Empty<Bytes>>,
        trust: Trust,
    ) -> Result<Response<Incoming>, Unreachable> {
        let place = endpoint.place();
        let dialled = timeout(DIAL, self.net.connect_tcp(&place)).await;
        let stream = dialled
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| Unreachable::dial(&place, &error))?;
        let name = ServerName::try_from(endpoint.host.clone()).map_err(io::Error::other);
        let tls = match trust {
            Trust::Verified => self.tls.verified.clone(),
            Trust::Anybody => self.tls.anybody.clone(),
        };
        let handshake = TlsConnector::from(tls).connect(name.map_err(Unreachable::Tls)?, stream);
        let shaken = timeout(HANDSHAKE, handshake).await.map_err(|_| Unreachable::HandshakeTimeout)?;
        let stream = shaken.map_err(Unreachable::Tls)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends when both the answer's body and the sender are gone, or the kubelet closes it.
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to a kubelet ended");
            }
        });
        Ok(sender.send_request(request).await?)
    }
}

/// What a kubelet says about a failure.
pub async fn complaint(response: Response<Incoming>) -> String {
    match Limited::new(response.into_body(), COMPLAINT_MAX).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(error) => format!("the kubelet's answer cannot be read: {error}"),
    }
}
