//! Around every RPC: its span, its end, and how long it took.
//!
//! The server drops a handler when its client resets the stream or runs out of time. Each call runs in a task of
//! its own, so that it is counted when it ends, once, with the code that it really ended with. What must not be cut
//! short does not rely on this layer: see `work`.

mod observation;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Instrument;

use crate::metrics::Operations;
use observation::Observation;
pub use table::about;
use table::{Answer, Rpc};

/// The layer that a driver's server is built with.
#[derive(Clone)]
pub struct Calls {
    tasks: TaskTracker,
    operations: Arc<Operations>,
}

impl Calls {
    pub fn new(tasks: TaskTracker, operations: Arc<Operations>) -> Self {
        Self { tasks, operations }
    }
}

impl<S> Layer<S> for Calls {
    type Service = Called<S>;

    fn layer(&self, inner: S) -> Called<S> {
        Called { inner, calls: self.clone() }
    }
}

/// The services behind the layer.
#[derive(Clone)]
pub struct Called<S> {
    inner: S,
    calls: Calls,
}

impl<S> Service<Request<Body>> for Called<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // What is in no table has no handler, either: the server answers UNIMPLEMENTED, and nobody can fill the
        // memory with methods that do not exist.
        let Some(rpc) = Rpc::find(request.uri().path()) else { return Box::pin(self.inner.call(request)) };
        let observation = Observation::begin(self.calls.operations.clone(), rpc.method);
        let answer = self.inner.call(request);
        let whole = async move {
            let response = answer.await?;
            Ok(conclude(rpc.answer, response, observation))
        };
        let task = self.calls.tasks.spawn(whole.instrument(rpc.span));
        Box::pin(async move { task.await.unwrap_or_else(|_| Ok(lost())) })
    }
}

/// Notes how the call ended, or sees to it that its stream will.
fn conclude(answer: Answer, response: Response<Body>, observation: Observation) -> Response<Body> {
    match (Status::from_header_map(response.headers()), answer) {
        (Some(refused), _) => observation.end(refused.code()),
        (None, Answer::Single) => observation.end(Code::Ok),
        (None, Answer::Stream) => return response.map(|body| stream::watched(body, observation)),
    }
    response
}

/// The task panicked. What it had done by then is unknown, and so is the answer.
fn lost() -> Response<Body> {
    Status::internal("operation ended without an answer; repeat the call").into_http()
}
