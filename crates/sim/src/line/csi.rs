//! The line of one process to a driver (or of the kubelet to a registrar): a gRPC proxy that loses, delays and refuses.

use std::sync::Arc;
use std::time::Duration;

use bowline_host::net::BoxStream;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::sync::Notify;
use tonic::Code;
use tower::BoxError;

use super::{Caller, Shared};
use crate::fault::{Kind, Opportunity};

/// Bytes one side may be ahead of the other.
const BUFFER: usize = 64 << 10;
/// Longer than any caller waits.
const SLOW: Duration = Duration::from_secs(125);

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Calls of controllers that change something; the others only ask.
const EFFECTS: [&str; 4] =
    ["CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume"];

/// One call and its answer, as the oracle sees it.
#[derive(Debug, Clone)]
pub struct Call {
    pub process: Arc<str>,
    pub rpc: String,
    /// The message, without the five bytes that frame it.
    pub request: Bytes,
}

/// A stream to what listens at the other end of `there`.
pub fn carry(caller: Caller, there: BoxStream) -> BoxStream {
    let (here, proxied) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        let Ok((sender, connection)) = handshake(TokioExecutor::new(), TokioIo::new(there)).await else {
            return;
        };
        let cut = Arc::new(Notify::new());
        let relay = Relay { caller, sender, cut: cut.clone() };
        let service = service_fn(move |request: Request<Incoming>| relay.clone().boxed(request));
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::select! {
            biased;
            () = cut.notified() => {}
            _ = server.serve_connection(TokioIo::new(proxied), service) => {}
            _ = connection => {}
        }
    });
    Box::new(here)
}

#[derive(Clone)]
struct Relay {
    caller: Caller,
    sender: SendRequest<Full<Bytes>>,
    cut: Arc<Notify>,
}

impl Relay {
    fn boxed(self, request: Request<Incoming>) -> BoxFuture<'static, Result<Response<Body>, std::io::Error>> {
        Box::pin(async move { self.call(request).await.map_err(std::io::Error::other) })
    }

    async fn call(mut self, request: Request<Incoming>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let rpc = head.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        let shared = self.caller.shared.clone();
        if EFFECTS.contains(&rpc.as_str()) {
            self.caller.begins(&rpc);
        }
        let message = body.slice(body.len().min(5)..);
        let process = self.caller.process.clone();
        let about = || About::decode(message.clone()).unwrap_or_default().volume;
        let fault = shared.strike_line(Opportunity::Call, &rpc, &process, about).await;
        let nth = fault.as_ref().map_or(0, |fault| fault.nth);
        let fault = fault.map(|fault| fault.kind);
        match fault {
            Some(Kind::CsiRefused) => return self.lost().await,
            Some(Kind::Code(code)) => return Ok(refusal(code as i32)),
            _ => {}
        }
        let call = Call { process, rpc, request: message };
        shared.oracle().begun(&call);
        let mut open = Open { shared: shared.clone(), call: call.clone(), answered: false };
        let sent = self.sender.send_request(Request::from_parts(head, Full::new(body))).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => {
                shared.say(format_args!("{} {} {error}", self.caller.process, call.rpc));
                return Err(error.into());
            }
        };
        let (head, body) = answer.into_parts();
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned();
        let body = collected.to_bytes();
        let code = status(&head.headers).or_else(|| trailers.as_ref().and_then(status)).unwrap_or(2);
        shared.say(format_args!("{} {} {code}", self.caller.process, call.rpc));
        open.answered = true;
        shared.oracle().ended(&call, Some(code), body.slice(body.len().min(5)..));
        match fault {
            Some(Kind::CsiLostAnswer) => return self.lost().await,
            Some(Kind::CsiDoneButCode) => {
                let code = if nth.is_multiple_of(2) { Code::Unavailable } else { Code::DeadlineExceeded };
                return Ok(refusal(code as i32));
            }
            Some(Kind::CsiSlow) => tokio::time::sleep(SLOW).await,
            _ => shared.hold_up().await,
        }
        Ok(Response::from_parts(head, answer_body(body, trailers)))
    }

    /// The connection breaks; calls that wait get no answer.
    async fn lost(self) -> Result<Response<Body>, BoxError> {
        self.cut.notify_one();
        std::future::pending().await
    }
}

/// A call whose answer has not come. Callers may give up, and then it is not known what the driver did.
struct Open {
    shared: Arc<Shared>,
    call: Call,
    answered: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.oracle().ended(&self.call, None, Bytes::new());
        }
    }
}

/// What all calls about a volume begin with: its id, or the name that a new one is to have.
#[derive(Clone, PartialEq, Message)]
struct About {
    #[prost(string, tag = "1")]
    volume: String,
}

fn status(headers: &HeaderMap) -> Option<i32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

fn answer_body(bytes: Bytes, trailers: Option<HeaderMap>) -> Body {
    let data = (!bytes.is_empty()).then(|| Frame::data(bytes));
    let frames = data.into_iter().chain(trailers.map(Frame::trailers)).map(Ok::<_, BoxError>);
    StreamBody::new(futures::stream::iter(frames)).boxed_unsync()
}

/// An answer that the driver never gave.
fn refusal(code: i32) -> Response<Body> {
    let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-message", HeaderValue::from_static("planned by the simulation"));
    answer
}
