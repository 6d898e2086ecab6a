//! Connections: TLS with optional client certificates, HTTP/1.1 and HTTP/2 on one port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use bowline_host::real::give_memory_back;

use crate::auth::{Identity, holder};
use crate::certs::{Authority, Credentials};
use crate::exchange::Abort;
use crate::http::body::Body;
use crate::limits::ConnectionOwner;
use crate::server::{Peer, Server};
use crate::socket::{KEEP_ALIVE, Socket};

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A client that does not finish the headers of a request in this time is dropped. Upstream's figure, as the next.
const HEADERS: Duration = Duration::from_secs(32);
/// The headers of a request all together; more is answered with a 431. Who has shown no credentials yet holds this much
/// on each connection, so it is less than upstream's 1 MiB.
const HEADERS_MAX: usize = 64 << 10;
/// What a client may send before its request has a seat: HTTP/2's own figure.
const WINDOW: u32 = (64 << 10) - 1;
/// How long open requests may take once the server goes down.
const DRAIN: Duration = Duration::from_secs(5);
/// What is kept of an answer on its way into a connection: encrypted, and for each stream of HTTP/2 before that. A
/// client that does not read holds this much.
const ENCRYPTED_MAX: usize = 16 << 10;
const STREAM_BUFFER: usize = 16 << 10;
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

/// How connections are made, and whose client certificates are believed.
pub struct Config {
    server: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
}

/// Trusts client certificates of the authority; clients without one come in as nobody.
pub fn config(authority: &Authority, server: &Credentials) -> Result<Config, TlsError> {
    config_trusting(&[authority.certificate()], server)
}

/// The same with any number of authorities, each PEM with one certificate or more.
pub fn config_trusting(authorities: &[&str], server: &Credentials) -> Result<Config, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for pem in authorities {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate?)?;
        }
    }
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let chain = vec![CertificateDer::from_pem_slice(server.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(Lenient(clients.clone())))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Config { server: Arc::new(config), clients })
}

/// Serves until `shutdown`, then lets open requests finish; watches end at once.
pub async fn serve(listener: TcpListener, server: Server, config: Config, shutdown: CancellationToken) {
    let Config { server: config, clients } = config;
    let acceptor = TlsAcceptor::from(config);
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(seat) = server.limits().connections.take(address.ip()) else {
                    if server.refused_connection() {
                        tracing::warn!(%address, "too many connections: closing some at once");
                    }
                    continue;
                };
                let (acceptor, server, shutdown) = (acceptor.clone(), server.clone(), shutdown.clone());
                let clients = clients.clone();
                connections.spawn(async move {
                    let peer = (Socket::new(stream), address, seat.owner());
                    let served = connection(peer, acceptor, clients, server.clone(), shutdown);
                    tokio::select! {
                        () = served => {}
                        () = seat.evicted.cancelled() => {
                            if server.refused_connection() {
                                tracing::warn!(%address, "too many connections of clients without credentials, or of one user: closing the oldest ones");
                            }
                        }
                    }
                    drop(seat);
                    if server.limits().connections.have_subsided() {
                        // Left to a thread of its own: this takes longer than others should wait.
                        tokio::task::spawn_blocking(give_memory_back);
                    }
                });
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

async fn connection(
    (socket, address, owner): (Socket, SocketAddr, ConnectionOwner),
    acceptor: TlsAcceptor,
    clients: Arc<dyn ClientCertVerifier>,
    server: Server,
    shutdown: CancellationToken,
) {
    if let Err(error) = socket.configure() {
        tracing::debug!(%error, "a connection without keep-alives");
    }
    let handshake =
        acceptor.accept_with(socket.clone(), |connection| connection.set_buffer_limit(Some(ENCRYPTED_MAX)));
    let stream = match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let identity = identity(chain, clients.as_ref(), server.now());
    if let Identity::Certificate(holder) = &identity
        && !owner.is_known(&holder.user)
        && server.refused_connection()
    {
        tracing::warn!(%address, user = holder.user.name, "too many connections of one user: refusing its requests on some with 429");
    }
    let peer = Peer { identity, address: Some(address), closing: shutdown.clone() };
    let streams_max = match server.limits().settings.http2_max_streams_per_connection {
        0 => None,
        max => Some(max),
    };
    let abort = Abort(CancellationToken::new());
    let aborted = abort.0.clone();
    let service = server.map_request(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(abort.clone());
        request.extensions_mut().insert(owner.clone());
        request
    });
    let service = service.map_response(move |response: http::Response<Body>| {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Err(error) = socket.allow_pauses()
        {
            tracing::debug!(%error, "a session that may not pause");
        }
        response
    });

    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADERS_MAX as u32)
        .max_concurrent_streams(streams_max)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .max_send_buf_size(STREAM_BUFFER)
        .keep_alive_interval(KEEP_ALIVE);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = aborted.cancelled() => return,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Who a connection belongs to, judged once: only the end of a certificate is looked at again with each request.
fn identity(chain: &[CertificateDer<'_>], clients: &dyn ClientCertVerifier, now: Timestamp) -> Identity {
    let Some((own, between)) = chain.split_first() else { return Identity::Nobody };
    let now = UnixTime::since_unix_epoch(now.as_duration().unsigned_abs());
    match (clients.verify_client_cert(own, between, now), holder(own)) {
        (Err(error), _) => {
            tracing::debug!(%error, "a client certificate is not trusted");
            Identity::Untrusted
        }
        // A certificate without a name is nobody's.
        (Ok(_), None) => Identity::Nobody,
        (Ok(_), Some(holder)) => Identity::Certificate(Arc::new(holder)),
    }
}

/// Lets any certificate through the handshake, as upstream does: whoever shows a wrong one is told so with a 401, not
/// with a broken connection. That the client has the key is still proven.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
