//! What stands between a role and any API server: a deadline for each call, and retries that the server asks for.
//!
//! A call that is not answered in time fails with `DeadlineExceeded`, which makes the effect's fate Unknown. Only an answer
//! with `Retry-After` is repeated: with it the server says that it did not take the request up. A request that went
//! unanswered may have landed and is never repeated here.
//!
//! Watches, logs and sessions in containers are streams: they have no deadline here, but a watch has to begin within it.
//! Then it bounds itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bowline_host::Random;
use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER, UPGRADE, USER_AGENT};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Service, ServiceExt};

/// Longest time for one call with all its repeats, as upstream's servers bound requests.
const DEADLINE: Duration = Duration::from_secs(60);
/// client-go's number of repeats.
const RETRIES_MAX: u32 = 10;
/// Spread of a repeat that may come at once.
const JITTER_MIN: Duration = Duration::from_millis(100);

/// The API server did not answer in time. The request may have landed.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {0:?}; the request may still take effect")]
pub struct DeadlineExceeded(Duration);

/// How calls are bounded and repeated.
#[derive(Clone)]
pub struct Line {
    deadline: Duration,
    user_agent: Option<HeaderValue>,
    random: Arc<dyn Random>,
}

impl Default for Line {
    fn default() -> Self {
        Self { deadline: DEADLINE, user_agent: None, random: Arc::new(Fixed::default()) }
    }
}

impl Line {
    /// With the program's name and version as user agent, and jitter from the host.
    pub fn of(program: &str, version: &str, random: Arc<dyn Random>) -> Self {
        let user_agent = HeaderValue::from_str(&format!("{program}/{version}")).ok();
        Self { user_agent, random, ..Self::default() }
    }

    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    pub(super) fn before<S>(self, service: S) -> Lined<S> {
        Lined { line: self, inner: Arc::new(Mutex::new(service)) }
    }

    /// How long to wait before the same request is sent again; `None` when the answer stands, or for longer than can be counted.
    fn pause<B>(&self, answer: &Response<B>, tries: u32) -> Option<Duration> {
        let status = answer.status();
        let refused = status.as_u16() == 429 || status.is_server_error();
        if !refused || tries > RETRIES_MAX {
            return None;
        }
        // As client-go, only the form in seconds: dates would compare two machines' clocks.
        let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
        let asked = Duration::from_secs(seconds);
        let spread = (asked / 2).max(JITTER_MIN);
        asked.checked_add(jitter(&*self.random, spread))
    }
}

/// A random duration below `spread`.
pub(crate) fn jitter(random: &dyn Random, spread: Duration) -> Duration {
    let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    spread.mul_f64(share)
}

/// Jitter without a host: the same sequence in each process, which is enough inside one.
#[derive(Default)]
struct Fixed(AtomicU64);

impl Random for Fixed {
    fn next_u64(&self) -> u64 {
        // Weyl sequence of the golden ratio: equally spread, no state beyond the counter.
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

/// A service behind a line.
pub(super) struct Lined<S> {
    line: Line,
    /// Held while a request is handed over, not while its answer is awaited.
    inner: Arc<Mutex<S>>,
}

impl<S, B> Service<Request<Body>> for Lined<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Bounded<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (line, inner) = (self.line.clone(), self.inner.clone());
        if let Some(name) = &line.user_agent {
            request.headers_mut().entry(USER_AGENT).or_insert_with(|| name.clone());
        }
        Box::pin(async move {
            if is_stream(&request) {
                // A log may be silent until there is something to read; a server that accepts a watch says so at once.
                let begins = is_watch(&request).then(|| Instant::now() + line.deadline);
                let answer = hand_over(&inner, request);
                let answer = match begins {
                    Some(begins) => {
                        timeout_at(begins, answer).await.map_err(|_| DeadlineExceeded(line.deadline))??
                    }
                    None => answer.await?,
                };
                return Ok(answer.map(|body| Bounded { body: Box::pin(body), deadline: None }));
            }
            let deadline = Instant::now() + line.deadline;
            let late = || DeadlineExceeded(line.deadline);
            let answer = timeout_at(deadline, repeated(&line, &inner, request, deadline))
                .await
                .map_err(|_| late())??;
            let bound = Some((Box::pin(sleep_until(deadline)), line.deadline));
            Ok(answer.map(|body| Bounded { body: Box::pin(body), deadline: bound }))
        })
    }
}

async fn repeated<S, B>(
    line: &Line,
    inner: &Mutex<S>,
    mut request: Request<Body>,
    deadline: Instant,
) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    for tries in 1.. {
        let again = copy(&request);
        let answer = hand_over(inner, request).await?;
        let (Some(copy), Some(pause)) = (again, line.pause(&answer, tries)) else { return Ok(answer) };
        // A pause of centuries has no end that can be named.
        let Some(at) = Instant::now().checked_add(pause).filter(|at| *at < deadline) else {
            return Ok(answer);
        };
        tracing::debug!(status = %answer.status(), ?pause, uri = %copy.uri(), "the API server asks to try again later");
        drop(answer);
        sleep_until(at).await;
        request = copy;
    }
    Err("unreachable: the number of tries is bounded".into())
}

async fn hand_over<S, B>(inner: &Mutex<S>, request: Request<Body>) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    let answer = {
        let mut service = inner.lock().await;
        service.ready().await.map_err(Into::into)?.call(request)
    };
    answer.await.map_err(Into::into)
}

/// `None` for a body that can be read only once.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// Whether the answer is a stream that may last.
pub(super) fn is_stream<B>(request: &Request<B>) -> bool {
    if is_watch(request) || request.headers().contains_key(UPGRADE) {
        return true;
    }
    // By position: an object may be named `log` or `proxy`, and calls about it have a deadline.
    let path: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
    match path[..] {
        ["api", "v1", "namespaces", _, "pods", _, "log"] => asks(request, "follow"),
        ["api", "v1", "namespaces", _, "pods", _, session, ..] => {
            ["exec", "attach", "portforward", "proxy"].contains(&session)
        }
        ["api", "v1", "namespaces", _, "services", _, "proxy", ..]
        | ["api", "v1", "nodes", _, "proxy", ..] => true,
        _ => false,
    }
}

pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    asks(request, "watch")
}

fn asks<B>(request: &Request<B>, option: &str) -> bool {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    form_urlencoded::parse(query).any(|(name, value)| name == option && matches!(&*value, "true" | "1"))
}

/// A body that ends with an error when the deadline of its call passes.
pub(super) struct Bounded<B> {
    body: Pin<Box<B>>,
    deadline: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl<B> HttpBody for Bounded<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some((sleep, allowed)) = &mut self.deadline else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(DeadlineExceeded(*allowed).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
