//! The listener and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::{BoxStream, Listener};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::pages::Pages;
use super::places::{Place, Places};
use super::tls::{Client, Tls};

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
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
    tls: Option<Arc<Tls>>,
}

impl Bound {
    /// As [`listen`] does.
    pub async fn bind(
        host: &Host,
        flag: &'static str,
        address: &str,
        tls: Option<Tls>,
    ) -> Result<Self, ServeError> {
        let (bound, listener) = listen(host, flag, address).await?;
        Ok(Self { address: bound, listener, tls: tls.map(Arc::new) })
    }

    /// Answers until `stop`. A failed accept is reported and tried again.
    pub async fn serve(mut self, pages: Pages, stop: CancellationToken) {
        tracing::info!(address = %self.address, tls = self.tls.is_some(), "serving health and metrics");
        let (pages, places) = (Arc::new(pages), Places::new(CONNECTIONS_MAX));
        let connections = TaskTracker::new();
        let accepting = async {
            loop {
                match self.listener.accept().await {
                    Ok(stream) => {
                        let Some(place) = places.take() else {
                            tracing::debug!("too many requests for health and metrics: closing a connection");
                            continue;
                        };
                        let (tls, pages, stop) = (self.tls.clone(), pages.clone(), stop.clone());
                        let evicted = place.evicted();
                        connections.spawn(async move {
                            let served =
                                tokio::time::timeout(CONNECTION_TIME, connection(stream, tls, pages, place));
                            tokio::select! {
                                biased;
                                () = stop.cancelled() => {}
                                () = evicted.cancelled() => {}
                                _ = served => {}
                            }
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

/// Binds `HOST:PORT`; without a host, all addresses of the machine. `flag` is what the error names. Every TCP port of a
/// program but that of the API server is bound here.
pub async fn listen(
    host: &Host,
    flag: &'static str,
    address: &str,
) -> Result<(SocketAddr, Box<dyn Listener>), ServeError> {
    let bound = match address.strip_prefix(':') {
        Some(port) => listen_everywhere(host, port).await,
        None => host.net.listen_tcp(address).await,
    };
    bound.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::Taken { flag, address: address.to_owned() },
        _ => ServeError::Listen { flag, address: address.to_owned(), source },
    })
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

async fn connection(stream: BoxStream, tls: Option<Arc<Tls>>, pages: Arc<Pages>, place: Place) {
    let Some(tls) = tls else { return requests(stream, None, pages, place).await };
    match tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
        Ok(Ok((stream, client))) => requests(Box::new(stream), Some(client), pages, place).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake for health and metrics"),
        Err(_) => tracing::debug!("TLS handshake for health and metrics timed out"),
    }
}

async fn requests(stream: BoxStream, client: Option<Client>, pages: Arc<Pages>, place: Place) {
    let (client, place) = (client.map(Arc::new), Arc::new(Mutex::new(place)));
    let service = service_fn(move |request: Request<Incoming>| {
        place.lock().unwrap_or_else(PoisonError::into_inner).keep();
        let (pages, client) = (pages.clone(), client.clone());
        let (mut head, _) = request.into_parts();
        async move {
            if let Some(client) = client {
                client.judged().await.mark(&mut head);
            }
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
