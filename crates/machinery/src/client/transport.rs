//! Connections to an API server: HTTP/2 where the server speaks it, shared, and closed when the other end is gone.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_host::Disk;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use tokio_rustls::rustls::client::{ResolvesClientCert, Resumption};
use tower::{BoxError, Service, ServiceBuilder};

use super::certificate::Certificate;
use super::line::{Line, is_stream};
use super::token::{Bearer, Token};
use super::{Client, ClientError, one_line};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that is silent this long is asked whether it lives, and closed when it does not answer in time: client-go
/// has the same bounds. A watch that waits for events on a dead connection is found this way.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 3;
const IDLE_MAX: Duration = Duration::from_secs(90);

/// Streams that share one connection. Servers allow 100 or more at once and let further ones wait, and watches do not
/// end: a connection full of watches would hold up every call on it. Go's client opens another connection then, hyper's
/// does not.
const STREAMS_MAX: usize = 64;

/// What requests show of their own, besides what the configuration says.
#[derive(Default)]
pub(super) struct Shown {
    pub token: Option<Bearer>,
    pub certificate: Option<Certificate>,
}

/// A client that reads the files of its credentials again as they rotate.
pub(super) async fn client(
    mut config: Config,
    line: Line,
    disk: Arc<dyn Disk>,
) -> Result<Client, ClientError> {
    let server = config.cluster_url.to_string();
    let refused = |why| ClientError::Prepare { server: server.clone(), why };
    let mut shown = Shown::default();
    if let Some(path) = config.auth_info.token_file.take() {
        let token = Token::open(disk.clone(), path.into()).await.map_err(refused)?;
        shown.token = Some(Bearer::File(token));
    }
    if let Some((certificate, key)) = certificate_files(&mut config.auth_info) {
        shown.certificate = Some(Certificate::open(disk, certificate, key).await.map_err(refused)?);
    }
    client_with(&config, line, shown)
}

/// Takes the files of a certificate and its key out of the configuration; what stands in the configuration itself does not
/// change and stays there.
fn certificate_files(user: &mut AuthInfo) -> Option<(PathBuf, PathBuf)> {
    if user.client_certificate_data.is_some() || user.client_key_data.is_some() {
        return None;
    }
    match (user.client_certificate.take(), user.client_key.take()) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        // One without the other is refused where the configuration is read.
        (certificate, key) => {
            (user.client_certificate, user.client_key) = (certificate, key);
            None
        }
    }
}

/// A client whose requests show these besides what the configuration says.
pub(super) fn client_with(config: &Config, line: Line, shown: Shown) -> Result<Client, ClientError> {
    let prepare = |error: kube::Error| ClientError::Prepare {
        server: config.cluster_url.to_string(),
        why: one_line(&error),
    };
    if config.proxy_url.is_some() {
        let why = "proxy-url is not supported; remove it from the kubeconfig".to_owned();
        return Err(ClientError::Prepare { server: config.cluster_url.to_string(), why });
    }
    let resolver = shown.certificate.as_ref().map(Certificate::resolver);
    let connector = Timed { inner: connector(config, resolver)?, within: CONNECT_TIMEOUT };
    let connections = Connections::new(connector, shown);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(prepare)?)
        .layer(config.extra_headers_layer().map_err(prepare)?)
        .service(connections);
    Ok(Client::new(line.before(service), config.default_namespace.clone()))
}

fn connector(
    config: &Config,
    certificate: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<Https, ClientError> {
    let prepare = |why: String| ClientError::Prepare { server: config.cluster_url.to_string(), why };
    let mut tls = config.rustls_client_config().map_err(|error| prepare(one_line(&error)))?;
    if let Some(certificate) = certificate {
        tls.client_auth_cert_resolver = certificate;
        // A session that is resumed has the certificate of the one before.
        tls.resumption = Resumption::disabled();
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE_TIMEOUT / KEEP_ALIVE_PROBES));
    tcp.set_keepalive_retries(Some(KEEP_ALIVE_PROBES));
    // Data that is sent and not acknowledged counts as the probes do.
    tcp.set_tcp_user_timeout(Some(KEEP_ALIVE + KEEP_ALIVE_TIMEOUT));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|_| prepare(format!("tls-server-name `{name}` is not a name")))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().enable_http2().wrap_connector(tcp))
}

type Https = HttpsConnector<HttpConnector>;

/// A connector that gives up: the one inside bounds TCP's handshake, but not that of TLS.
#[derive(Clone)]
struct Timed {
    inner: Https,
    within: Duration,
}

impl Service<Uri> for Timed {
    type Response = <Https as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Service::<Uri>::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let (within, connecting) = (self.within, self.inner.call(server));
        Box::pin(async move {
            let late = || format!("no connection with TLS within {within:?}");
            tokio::time::timeout(within, connecting).await.map_err(|_| late())?
        })
    }
}

type Pool = legacy::Client<Timed, Body>;

/// The connections of one client.
#[derive(Clone)]
struct Connections {
    connector: Timed,
    shown: Arc<Shown>,
    pools: Arc<Mutex<Pools>>,
}

/// One pool for calls, and as many as it takes for streams. With HTTP/2 a pool is one connection.
struct Pools {
    calls: Pool,
    streams: Vec<(Pool, Arc<AtomicUsize>)>,
}

impl Connections {
    fn new(connector: Timed, shown: Shown) -> Self {
        let pools = Pools { calls: pool(connector.clone()), streams: Vec::new() };
        Self { connector, shown: Arc::new(shown), pools: Arc::new(Mutex::new(pools)) }
    }

    /// Requests from now on have connections of their own; those that run end on theirs.
    fn start_over(&self) {
        let new = Pools { calls: pool(self.connector.clone()), streams: Vec::new() };
        *self.pools() = new;
    }

    /// The first pool with room, so that a few watches share one connection.
    fn for_stream(&self) -> (Pool, Place) {
        let streams = &mut self.pools().streams;
        let free = streams.iter().find(|(_, open)| open.load(Ordering::SeqCst) < STREAMS_MAX).cloned();
        let (pool, open) = free.unwrap_or_else(|| {
            let new = (pool(self.connector.clone()), Arc::default());
            streams.push(new.clone());
            new
        });
        open.fetch_add(1, Ordering::SeqCst);
        (pool, Place(open))
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pool(connector: Timed) -> Pool {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

/// A stream's place in its pool, free again when the stream is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Placed<hyper::body::Incoming>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let Shown { token, certificate } = &*this.shown;
            if let Some(certificate) = certificate
                && certificate.renewed().await
            {
                tracing::info!("the client certificate has changed, connecting with the new one");
                this.start_over();
            }
            if let Some(token) = token {
                request.headers_mut().insert(AUTHORIZATION, token.header().await?);
            }
            let (pool, place) = match is_stream(&request) {
                true => {
                    let (pool, place) = this.for_stream();
                    (pool, Some(place))
                }
                false => (this.pools().calls.clone(), None),
            };
            let answer = pool.request(request).await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                if let Some(token) = token {
                    token.refused().await;
                }
                if let Some(certificate) = certificate {
                    certificate.refused().await;
                }
            }
            Ok(answer.map(|body| Placed { body, _place: place }))
        })
    }
}

/// A body that holds its stream's place.
struct Placed<B> {
    body: B,
    _place: Option<Place>,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Placed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
