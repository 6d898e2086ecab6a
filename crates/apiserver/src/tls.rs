//! Connections: TLS with optional client certificates, HTTP/1.1 and HTTP/2 on one port.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::anybody::Anybody;
use crate::certs::{Authority, Credentials};
use crate::server::{Peer, Server};

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long open requests may take once the server goes down.
const DRAIN: Duration = Duration::from_secs(5);
/// Clients run many watches over one connection.
const STREAMS_MAX: u32 = 1000;
/// Finds peers that vanished without a word.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("read a certificate: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("set up TLS: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("set up client certificates: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// Trusts client certificates of the authority; clients without one come in as nobody.
pub fn config(authority: &Authority, server: &Credentials) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(trusting(authority.certificate())?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
        .allow_unauthenticated()
        .build()?;
    let (chain, key) = identity(server)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Serves only clients with a certificate of the authority: a kubelet's own server.
pub fn config_for_clients(
    authority: &Authority,
    server: &Credentials,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(trusting(authority.certificate())?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let (chain, key) = identity(server)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

/// How this server calls kubelets: whom it believes, and how it shows who it is.
///
/// Without an authority any kubelet is believed, as upstream does without `--kubelet-certificate-authority`.
pub fn kubelet_client(
    authority: Option<&str>,
    client: Option<&Credentials>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match authority {
        Some(authority) => builder.with_root_certificates(trusting(authority)?),
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody { provider })),
    };
    let config = match client {
        Some(client) => {
            let (chain, key) = identity(client)?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn trusting(authority: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    Ok(roots)
}

fn identity(own: &Credentials) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?];
    Ok((chain, PrivateKeyDer::from_pem_slice(own.key.as_bytes())?))
}

/// Serves until `shutdown`, then lets open requests finish; watches end at once.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    config: Arc<ServerConfig>,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(config);
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (acceptor, server, shutdown) = (acceptor.clone(), server.clone(), shutdown.clone());
                connections.spawn(connection(stream, acceptor, server, shutdown));
            }
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, server: Server, shutdown: CancellationToken) {
    // Small answers must not wait for each other.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    // The verifier let only certificates of our authority through.
    let authenticated = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let peer = Peer { authenticated, closing: shutdown.clone() };
    let service = server.map_request(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request
    });

    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(KEEP_ALIVE);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
