//! A network with moods: every request, answer and watch event is delayed by a seeded amount.
//!
//! On paused time the delays cost nothing; they decide who hears of what first, so another seed is another
//! interleaving of the same components.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_host::Random;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tower::{BoxError, Service};

/// Longest delay of one message.
const DELAY_MAX: Duration = Duration::from_millis(20);

/// Wraps an API server's service.
#[derive(Clone)]
pub struct Jitter<S> {
    inner: S,
    random: Arc<dyn Random>,
}

impl<S> Jitter<S> {
    pub fn new(inner: S, random: Arc<dyn Random>) -> Self {
        Self { inner, random }
    }
}

/// Sleeps for a moment that the seed decides.
async fn hold_up(random: Arc<dyn Random>) {
    let micros = random.next_u64() % DELAY_MAX.as_micros() as u64;
    tokio::time::sleep(Duration::from_micros(micros)).await;
}

impl<S, B> Service<Request<Body>> for Jitter<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let random = self.random.clone();
        Box::pin(async move {
            hold_up(random.clone()).await;
            let response = inner.call(request).await.map_err(Into::into)?;
            Ok(response.map(|body| late(body, random)))
        })
    }
}

/// The same body, each frame a little later, in order.
fn late<B>(body: B, random: Arc<dyn Random>) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let frames = BodyStream::new(body.map_err(Into::into)).then(move |frame| {
        let random = random.clone();
        async move {
            hold_up(random).await;
            frame
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
