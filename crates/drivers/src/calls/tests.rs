//! The layer around services that end in every way a service can.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service, service_fn};

use super::Calls;
use crate::metrics::{Operations, counts};

const UNARY: &str = "/csi.v1.Controller/CreateVolume";
const STREAM: &str = "/csi.v1.SnapshotMetadata/GetMetadataDelta";

/// A body made of prepared frames.
struct Frames(Vec<Result<Frame<Bytes>, Status>>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready((!self.0.is_empty()).then(|| self.0.remove(0)))
    }
}

fn data() -> Result<Frame<Bytes>, Status> {
    Ok(Frame::data(Bytes::from_static(b"x")))
}

fn trailers(code: &'static str) -> Result<Frame<Bytes>, Status> {
    let mut map = HeaderMap::new();
    map.insert("grpc-status", http::HeaderValue::from_static(code));
    Ok(Frame::trailers(map))
}

fn answer(frames: Vec<Result<Frame<Bytes>, Status>>) -> Response<Body> {
    Response::new(Body::new(Frames(frames)))
}

struct Bench {
    tasks: TaskTracker,
    operations: Arc<Operations>,
}

impl Bench {
    fn new() -> Self {
        Self { tasks: TaskTracker::new(), operations: Arc::new(Operations::new("d")) }
    }

    /// Calls a service through the layer.
    async fn call<F>(&self, path: &str, handler: impl Fn() -> F + Clone) -> Response<Body>
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let service = service_fn(move |_: Request<Body>| {
            let answer = handler();
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let mut service = Calls::new(self.tasks.clone(), self.operations.clone()).layer(service);
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        service.call(request).await.unwrap()
    }

    /// `Code=count` of everything observed.
    fn counts(&self) -> Vec<String> {
        counts(&self.operations)
    }
}

#[tokio::test]
async fn single_answers_count_when_the_handler_is_done() {
    let bench = Bench::new();
    // Nobody reads the body: the work is done all the same.
    drop(bench.call(UNARY, || async { answer(vec![data(), trailers("0")]) }).await);
    bench.call(UNARY, || async { Status::not_found("no").into_http() }).await;
    assert_eq!(bench.counts(), [format!("{UNARY} NotFound=1"), format!("{UNARY} OK=1")]);
}

#[tokio::test]
async fn streams_count_as_their_trailers_say() {
    type Make = fn() -> Response<Body>;
    let table: [(&str, Make, usize, &str); 5] = [
        ("read to the end", || answer(vec![data(), trailers("0")]), 2, "OK"),
        ("failed half-way", || answer(vec![data(), trailers("11")]), 2, "OutOfRange"),
        ("broken", || answer(vec![data(), Err(Status::internal("boom"))]), 2, "Internal"),
        ("given up by its reader", || answer(vec![data(), trailers("0")]), 1, "Canceled"),
        ("refused", || Status::invalid_argument("no").into_http(), 0, "InvalidArgument"),
    ];
    for (name, make, frames, code) in table {
        let bench = Bench::new();
        let mut body = bench.call(STREAM, move || async move { make() }).await.into_body();
        for _ in 0..frames {
            let _ = body.frame().await.unwrap();
        }
        drop(body);
        assert_eq!(bench.counts(), [format!("{STREAM} {code}=1")], "{name}");
    }
}

#[tokio::test]
async fn a_panic_is_an_answer_and_is_counted() {
    let bench = Bench::new();
    let response = bench.call(UNARY, || async { panic!("planned") }).await;
    let status = Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::Internal);
    assert_eq!(bench.counts(), [format!("{UNARY} Internal=1")]);
}

#[tokio::test]
async fn unknown_methods_are_not_remembered() {
    let bench = Bench::new();
    bench.call("/csi.v1.Controller/Nonsense", || async { Status::unimplemented("no").into_http() }).await;
    assert_eq!(bench.counts(), Vec::<String>::new());
}

/// Goal: a call whose client went away is counted when its work ends, with what came of it.
#[tokio::test(start_paused = true)]
async fn the_work_goes_on_without_its_client() {
    let bench = Bench::new();
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let call = bench.call(UNARY, move || {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            answer(vec![trailers("0")])
        }
    });
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err(), "the client gave up");
    assert_eq!(bench.counts(), Vec::<String>::new(), "nothing has ended yet");
    go.notify_one();
    bench.tasks.close();
    bench.tasks.wait().await;
    assert_eq!(bench.counts(), [format!("{UNARY} OK=1")]);
}

/// Stopping waits for calls in flight.
#[tokio::test(start_paused = true)]
async fn calls_in_flight_are_tracked() {
    let bench = Bench::new();
    let call = bench.call(UNARY, pending);
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(bench.tasks.len(), 1);
}
