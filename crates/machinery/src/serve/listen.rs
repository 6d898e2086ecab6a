//! The listener and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::{BoxStream, Listener};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::pages::Pages;
use super::tls::Tls;

/// Connections at once; the port is open to pods, and they shall not use up the file descriptors of the program.
const CONNECTIONS_MAX: usize = 128;
/// A connection carries one request and has this long for it, handshake included.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// A client that does not finish its handshake, or the head of its request, in this time is dropped.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "{flag}: the address `{address}` is taken by another process; stop that one or choose another port"
    )]
    Taken { flag: &'static str, address: String },
    #[error("{flag}: listen on `{address}`")]
    Listen { flag: &'static str, address: String, source: io::Error },
}

/// A bound port, not yet served.
pub struct Bound {
    pub address: SocketAddr,
    listener: Box<dyn Listener>,
    tls: Option<TlsAcceptor>,
}

impl Bound {
    /// Binds `HOST:PORT`; without a host, all addresses of the machine. `flag` is what the error names.
    pub async fn bind(
        host: &Host,
        flag: &'static str,
        address: &str,
        tls: Option<Tls>,
    ) -> Result<Self, ServeError> {
        let bound = match address.strip_prefix(':') {
            Some(port) => listen_everywhere(host, port).await,
            None => host.net.listen_tcp(address).await,
        };
        let (bound, listener) = bound.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::Taken { flag, address: address.to_owned() },
            _ => ServeError::Listen { flag, address: address.to_owned(), source },
        })?;
        Ok(Self { address: bound, listener, tls: tls.map(|tls| TlsAcceptor::from(tls.config)) })
    }

    /// Answers until `stop`. A failed accept is reported and tried again.
    pub async fn serve(mut self, pages: Pages, stop: CancellationToken) {
        tracing::info!(address = %self.address, tls = self.tls.is_some(), "serving health and metrics");
        let (pages, places) = (Arc::new(pages), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        let connections = TaskTracker::new();
        let accepting = async {
            loop {
                let Ok(place) = places.clone().acquire_owned().await else { return };
                match self.listener.accept().await {
                    Ok(stream) => {
                        let (tls, pages, stop) = (self.tls.clone(), pages.clone(), stop.clone());
                        connections.spawn(async move {
                            let served =
                                tokio::time::timeout(CONNECTION_TIME, connection(stream, tls, pages));
                            let _ = stop.run_until_cancelled(served).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept a connection for health and metrics");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(accepting).await;
        connections.close();
        connections.wait().await;
    }
}

/// IPv6 with IPv4 in it, or IPv4 alone where the machine has no IPv6.
async fn listen_everywhere(host: &Host, port: &str) -> io::Result<(SocketAddr, Box<dyn Listener>)> {
    match host.net.listen_tcp(&format!("[::]:{port}")).await {
        Err(error) if !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) => {
            host.net.listen_tcp(&format!("0.0.0.0:{port}")).await
        }
        bound => bound,
    }
}

async fn connection(stream: BoxStream, tls: Option<TlsAcceptor>, pages: Arc<Pages>) {
    let Some(tls) = tls else { return requests(stream, pages).await };
    match tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => requests(Box::new(stream), pages).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake for health and metrics"),
        Err(_) => tracing::debug!("TLS handshake for health and metrics timed out"),
    }
}

async fn requests(stream: BoxStream, pages: Arc<Pages>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let pages = pages.clone();
        async move {
            let (head, _) = request.into_parts();
            Ok::<_, Infallible>(pages.answer(&head).await.into_response())
        }
    });
    let mut http = http1::Builder::new();
    // One request each: a connection kept open would hold one of the places.
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection for health and metrics ended");
    }
}
