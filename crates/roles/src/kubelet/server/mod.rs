//! The kubelet's own HTTPS server: what the API server asks of a node, in upstream's paths and words.
//!
//! | path | what |
//! |---|---|
//! | `GET /containerLogs/<namespace>/<pod>/<container>` | what a container wrote ([`logs`]) |
//! | `GET`, `POST /exec/<namespace>/<pod>/<container>` | runs a program inside ([`exec`]), over a WebSocket ([`session`]) |
//! | `GET /healthz` | `ok` |
//! | `GET /metrics` | what this process counts |
//! | `GET /stats/summary` | how full the volumes of pods are |
//!
//! With `--authorization-mode=Webhook` the API server is asked about each request ([`attributes`]); otherwise a client with a
//! certificate of the authority in the TLS settings may ask anything, and others are refused.

mod attributes;
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
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::{BoxStream, Listener};
use bowline_machinery::client::one_line;
use bowline_machinery::serve::{self, Access, Client, Denied, Everyone, Place, Places, Tls};
use bowline_machinery::{Ports, RunError};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::task::TaskTracker;

use crate::kubelet::pods::Inspector;
use crate::kubelet::volumestats::Stats;

pub use attributes::attributes;

/// Chooses the port, where it is not any free one.
const FLAG: &str = "--port";
/// A client that does not finish its handshake, or its request's head, in this time is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at once, sessions in containers among them.
const CONNECTIONS_MAX: usize = 1024;
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Where to answer, and whom.
#[derive(Clone)]
pub struct Serving {
    /// `HOST:PORT`; port 0 takes any free one.
    address: String,
    tls: Arc<Tls>,
    access: Arc<dyn Access>,
}

impl Serving {
    /// Each client with a certificate that `tls` demands may ask anything.
    pub fn to_certificates(address: String, tls: Tls) -> Self {
        Self::reviewed(address, tls, Arc::new(Everyone))
    }

    /// `access` is asked about each request, `tls` lets in clients without a certificate.
    pub fn reviewed(address: String, tls: Tls, access: Arc<dyn Access>) -> Self {
        Self { address, tls: Arc::new(tls), access }
    }
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
    tls: Arc<Tls>,
    access: Arc<dyn Access>,
}

pub(super) async fn bind(host: &Host, serving: &Serving) -> Result<Server, RunError> {
    let bound = serve::listen(host, FLAG, &serving.address).await;
    let (address, listener) = bound.map_err(|error| RunError::Refused(one_line(&error)))?;
    let (tls, access) = (serving.tls.clone(), serving.access.clone());
    Ok(Server { port: address.port(), listener, tls, access })
}

/// The pods of this node, and the machine they run on.
#[derive(Clone)]
struct Node {
    pods: Inspector,
    stats: Stats,
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
    pub async fn run(mut self, pods: Inspector, stats: Stats, ports: Ports) -> Result<(), RunError> {
        let stop = ports.stop.clone();
        let node = Node { pods, stats, ports };
        let (connections, places) = (TaskTracker::new(), Places::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok(stream) => {
                    let Some(place) = places.take() else {
                        tracing::debug!("too many connections to the kubelet: closing one at once");
                        continue;
                    };
                    let (tls, node, stop) = (self.tls.clone(), node.clone(), stop.clone());
                    let (access, evicted) = (self.access.clone(), place.evicted());
                    connections.spawn(async move {
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => {}
                            () = evicted.cancelled() => {}
                            () = connection(stream, tls, access, node, place) => {}
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

async fn connection(stream: BoxStream, tls: Arc<Tls>, access: Arc<dyn Access>, node: Node, place: Place) {
    let (stream, client) = match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake with the kubelet"),
        Err(_) => return tracing::debug!("TLS handshake with the kubelet timed out"),
    };
    let peer = Arc::new(Peer { client, place: Mutex::new(place) });
    let service = service_fn(move |request| {
        let (node, access, peer) = (node.clone(), access.clone(), peer.clone());
        async move { Ok::<_, Infallible>(reviewed(node, access, &peer, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let served = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection to the kubelet ended");
    }
}

/// The other end of a connection, and its place.
struct Peer {
    client: Client,
    place: Mutex<Place>,
}

async fn reviewed(
    node: Node,
    access: Arc<dyn Access>,
    peer: &Peer,
    request: Request<Incoming>,
) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    peer.client.judged().await.mark(&mut head);
    match access.allow(&head).await {
        Ok(()) => {
            peer.place.lock().unwrap_or_else(PoisonError::into_inner).keep();
            answer(node, Request::from_parts(head, body)).await
        }
        Err(denied) => refusal(&denied, &head),
    }
}

/// In upstream's words.
fn refusal(denied: &Denied, request: &Parts) -> Response<Body> {
    let verb = attributes::verb(&request.method);
    match denied {
        Denied::Unauthorized => text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Denied::Forbidden { user } => {
            let part = attributes::parts(request.uri.path()).join(" ");
            let why =
                format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{part}])\n");
            text(StatusCode::FORBIDDEN, why)
        }
        Denied::Unknown(error) => {
            tracing::warn!(path = request.uri.path(), error, "review a request to the kubelet");
            text(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be reviewed\n")
        }
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
        (&Method::GET, ["stats", "summary"]) => {
            let summary = node.stats.summary(node.pods.node_name()).to_string();
            let mut response = text(StatusCode::OK, summary);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
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
