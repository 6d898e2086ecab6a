//! The kubelet's own HTTPS server: what the API server asks of a node, in upstream's paths and words.
//!
//! | path | what |
//! |---|---|
//! | `GET /containerLogs/<namespace>/<pod>/<container>` | what a container wrote ([`logs`]) |
//! | `GET`, `POST /exec/<namespace>/<pod>/<container>` | runs a program inside ([`exec`]), over a WebSocket ([`session`]) |
//! | `GET /healthz` | `ok` |
//! | `GET /metrics` | what this process counts |
//!
//! Whoever has a client certificate of the authority in the TLS settings may ask anything; others do not get past
//! the handshake. Upstream asks the API server about each request instead (webhook authorization).

mod exec;
mod follow;
mod frames;
mod listen;
mod logs;
mod query;
mod select;
mod session;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
mod websocket;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::{BoxStream, Listener};
use bowline_machinery::{Ports, RunError};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::task::TaskTracker;

use crate::kubelet::pods::Inspector;

/// A client that does not finish its handshake, or its request's head, in this time is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Where to answer, and whom.
#[derive(Clone)]
pub struct Serving {
    /// `HOST:PORT`; port 0 takes any free one.
    pub address: String,
    /// Must ask for client certificates.
    pub tls: Arc<ServerConfig>,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A server that has its port but answers nobody yet.
pub(super) struct Server {
    pub port: u16,
    listener: Box<dyn Listener>,
    tls: TlsAcceptor,
}

pub(super) async fn bind(host: &Host, serving: &Serving) -> Result<Server, RunError> {
    let bound = host.net.listen_tcp(&serving.address).await;
    let failed =
        |source| RunError::Io { what: "listen for the API server on", path: serving.address.clone(), source };
    let (address, listener) = bound.map_err(failed)?;
    Ok(Server { port: address.port(), listener, tls: TlsAcceptor::from(serving.tls.clone()) })
}

/// The pods of this node, and the machine they run on.
#[derive(Clone)]
struct Node {
    pods: Inspector,
    ports: Ports,
}

/// Which container a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    namespace: String,
    pod: String,
    container: String,
}

impl Server {
    /// Answers until the process is to end.
    pub async fn run(mut self, pods: Inspector, ports: Ports) -> Result<(), RunError> {
        let stop = ports.stop.clone();
        let node = Node { pods, ports };
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok(stream) => {
                    let (tls, node, stop) = (self.tls.clone(), node.clone(), stop.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => {}
                            () = connection(stream, tls, node) => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept a connection to the kubelet");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
        Ok(())
    }
}

async fn connection(stream: BoxStream, tls: TlsAcceptor, node: Node) {
    let stream = match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake with the kubelet"),
        Err(_) => return tracing::debug!("TLS handshake with the kubelet timed out"),
    };
    let service = service_fn(move |request| {
        let node = node.clone();
        async move { Ok::<_, Infallible>(answer(node, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let served = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection to the kubelet ended");
    }
}

async fn answer(node: Node, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let target = |namespace: &str, pod: &str, container: &str| Target {
        namespace: namespace.into(),
        pod: pod.into(),
        container: container.into(),
    };
    match (request.method(), &segments[..]) {
        (&Method::GET, ["healthz"]) => text(StatusCode::OK, "ok"),
        (&Method::GET, ["metrics"]) => text(StatusCode::OK, node.ports.metrics.text()),
        (&Method::GET, ["containerLogs", namespace, pod, container]) => {
            let query = request.uri().query().unwrap_or_default();
            logs::answer(&node, &target(namespace, pod, container), query).await
        }
        (&Method::GET | &Method::POST, ["exec", namespace, pod, container]) => {
            exec::answer(node, target(namespace, pod, container), request).await
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
