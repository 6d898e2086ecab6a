//! `/metrics` and `/healthz` over HTTP.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bowline_host::Host;
use bowline_host::net::Listener;
use bytes::Bytes;
use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::gather::{Vitals, page};
use super::operations::Operations;
use crate::error::chain;
use crate::serve::{Connection, accepted};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// Connections served at once; scrapers come one by one, and others shall not use up file descriptors.
const CONNECTIONS_MAX: usize = 16;
/// Longest a connection may take for its one request and answer.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
#[error("--metrics-address: listen for metrics on `{address}`{}", hint(source))]
pub struct MetricsError {
    address: String,
    source: io::Error,
}

/// What to do about it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ", which another process has: stop that one or choose another port",
        _ => "",
    }
}

/// A bound port, not yet served.
pub struct Endpoint {
    listener: Box<dyn Listener>,
    pages: Arc<Pages>,
}

impl Endpoint {
    /// Binds `HOST:PORT`; the address it became stands in the log.
    pub async fn bind(
        host: Host,
        address: &str,
        vitals: Arc<dyn Vitals>,
        operations: Arc<Operations>,
    ) -> Result<Self, MetricsError> {
        let bound = host.net.listen_tcp(address).await;
        let (bound, listener) =
            bound.map_err(|source| MetricsError { address: address.to_owned(), source })?;
        tracing::info!(address = %bound, "serving metrics");
        let started = host.clock.now().as_second();
        Ok(Self { listener, pages: Arc::new(Pages { host, vitals, operations, started }) })
    }

    /// Answers until `stop`. A port that stops accepting is reported, and is no reason to stop the driver.
    pub async fn serve(self, stop: CancellationToken) {
        let pages = self.pages;
        let answering = accepted(self.listener).for_each_concurrent(CONNECTIONS_MAX, |connection| {
            let pages = pages.clone();
            async move {
                if let Ok(connection) = connection {
                    serve_connection(connection, pages).await;
                }
            }
        });
        if stop.run_until_cancelled(answering).await.is_some() {
            tracing::error!("the metrics port stopped accepting connections");
        }
    }
}

async fn serve_connection(connection: Connection, pages: Arc<Pages>) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages.answer(request.method(), request.uri().path()).await) }
    });
    // One request each: a connection kept open would hold one of the few places.
    let mut http = http1::Builder::new();
    let served = http.keep_alive(false).serve_connection(TokioIo::new(connection), respond);
    match tokio::time::timeout(PATIENCE, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "metrics connection failed"),
        Err(_) => tracing::debug!("metrics connection took too long"),
    }
}

/// What the answers are made from.
struct Pages {
    host: Host,
    vitals: Arc<dyn Vitals>,
    operations: Arc<Operations>,
    /// Seconds since 1970.
    started: i64,
}

impl Pages {
    async fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into());
        }
        match path {
            "/metrics" => {
                let page = page(&self.host, &*self.vitals, &self.operations, self.started).await;
                respond(StatusCode::OK, page)
            }
            "/healthz" => match self.vitals.check().await {
                Ok(()) => respond(StatusCode::OK, "ok\n".into()),
                Err(error) => respond(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", chain(&error))),
            },
            _ => respond(StatusCode::NOT_FOUND, "try /metrics or /healthz\n".into()),
        }
    }
}

fn respond(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}
