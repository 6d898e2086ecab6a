//! A scripted API server for tests: each request is answered by a function, or never.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::BoxError;

use crate::client::{Client, Line, in_process_with};

pub type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Requests as `METHOD path?query`, in order.
pub type Seen = Arc<Mutex<Vec<String>>>;

/// A client of a server that answers with `answer`; `None` leaves a request without one.
pub fn client(answer: impl Fn(&Parts, &Value) -> Option<Answer> + Send + Sync + 'static) -> (Client, Seen) {
    client_with(Line::default(), answer)
}

pub fn client_with(
    line: Line,
    answer: impl Fn(&Parts, &Value) -> Option<Answer> + Send + Sync + 'static,
) -> (Client, Seen) {
    let seen = Seen::default();
    let (log, answer) = (seen.clone(), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, answer) = (log.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            log.lock().unwrap().push(format!("{} {}", parts.method, parts.uri));
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            match answer(&parts, &body) {
                Some(answer) => Ok::<_, BoxError>(answer),
                None => std::future::pending().await,
            }
        }
    });
    (in_process_with(service, line), seen)
}

pub fn json_answer(status: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

pub fn status(code: u16, reason: &str, message: &str) -> Answer {
    json_answer(code, &status_object(code, reason, message))
}

pub fn status_object(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message})
}

/// An answer whose lines come from a channel; it ends with the sender.
pub fn stream() -> (mpsc::UnboundedSender<Value>, Answer) {
    let (lines, incoming) = mpsc::unbounded_channel::<Value>();
    let frames = futures::stream::unfold(incoming, |mut incoming| async move {
        let line = incoming.recv().await?;
        Some((Ok(http_body::Frame::data(Bytes::from(format!("{line}\n")))), incoming))
    });
    (lines, Response::new(StreamBody::new(frames.boxed()).boxed_unsync()))
}
