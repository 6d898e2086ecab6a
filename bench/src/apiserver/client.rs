//! HTTP/2 over TLS, as client-go speaks it, with as little of its own work as possible: the two cores are shared with the server.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_apiserver::certs::{Authority, Credentials};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::objects::JSON;

/// Where a server is and how it is trusted.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    pub tls: Arc<ClientConfig>,
}

/// One connection. Clones share it.
#[derive(Clone)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Target {
    pub fn new(address: SocketAddr, authority: &Authority, own: &Credentials) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes())?,
            )?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { address, tls: Arc::new(tls) })
    }

    pub async fn connect(&self) -> Result<Client> {
        let stream = TcpStream::connect(self.address).await.context("connect")?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream =
            TlsConnector::from(self.tls.clone()).connect(name, stream).await.context("TLS handshake")?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .context("HTTP/2 handshake")?;
        tokio::spawn(connection);
        Ok(Client { sender })
    }

    pub async fn clients(&self, count: usize) -> Result<Vec<Client>> {
        futures::future::try_join_all((0..count).map(|_| self.connect())).await
    }
}

impl Client {
    /// The body of a successful answer.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        kinds: Kinds<'_>,
        body: Vec<u8>,
    ) -> Result<Bytes> {
        let answer = self.open(method, path, kinds, body).await?;
        let (status, bytes) = (answer.status(), answer.into_body().collect().await?.to_bytes());
        match status.is_success() {
            true => Ok(bytes),
            false => bail!("{status}: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)])),
        }
    }

    /// The answer as soon as it begins.
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        kinds: Kinds<'_>,
        body: Vec<u8>,
    ) -> Result<http::Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://server{path}"))
            .header(header::ACCEPT, kinds.accept)
            .header(header::CONTENT_TYPE, kinds.content)
            .header(header::USER_AGENT, "bowline-bench")
            .body(Full::new(body.into()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

/// Media types of a request.
#[derive(Clone, Copy)]
pub struct Kinds<'a> {
    pub content: &'a str,
    pub accept: &'a str,
}

impl Kinds<'static> {
    pub const JSON: Self = Self { content: JSON, accept: JSON };
}
