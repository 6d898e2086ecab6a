//! A line to the API server that breaks where a test says.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_apiserver::Server;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tower::Service;

/// Where the line breaks: at its n-th write, which may have landed.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub at: usize,
    pub landed: bool,
}

/// A list that a lagging API server still answers with.
#[derive(Clone)]
pub struct Listed {
    pub path: &'static str,
    pub body: Bytes,
}

/// Counts the writes of a line, events left out.
#[derive(Clone, Default)]
pub struct Writes(Arc<AtomicUsize>);

impl Writes {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;
type Answering = BoxFuture<'static, Result<Answer, Infallible>>;
type Loses = dyn Fn(&Request<Body>) -> bool + Send + Sync;
type Judges = dyn Fn(String) -> BoxFuture<'static, ()> + Send + Sync;

/// The API server as one process reaches it.
#[derive(Clone)]
pub struct Line {
    server: Server,
    cut: Option<Cut>,
    forbidden: Option<(Option<Method>, &'static str)>,
    lagging: Option<Listed>,
    slow: Vec<(&'static str, Duration)>,
    loses: Option<Arc<Loses>>,
    fails: Option<Arc<Loses>>,
    judges: Option<Arc<Judges>>,
    pub writes: Writes,
}

impl Line {
    pub fn to(server: &Server) -> Self {
        Self {
            server: server.clone(),
            cut: None,
            forbidden: None,
            lagging: None,
            slow: Vec::new(),
            loses: None,
            fails: None,
            judges: None,
            writes: Writes::default(),
        }
    }

    pub fn cut(self, cut: Option<Cut>) -> Self {
        Self { cut, ..self }
    }

    /// Requests whose path has this in it are forbidden, all or those with one method.
    pub fn forbidding(self, method: Option<Method>, path: &'static str) -> Self {
        Self { forbidden: Some((method, path)), ..self }
    }

    /// The copy of one kind stays as it was; reads of the store itself are as fresh as ever.
    pub fn lagging(self, listed: Listed) -> Self {
        Self { lagging: Some(listed), ..self }
    }

    /// Watches of these plurals are late by so much.
    pub fn slow(self, slow: &[(&'static str, Duration)]) -> Self {
        Self { slow: slow.to_vec(), ..self }
    }

    /// Requests of which this says so stay without an answer.
    pub fn losing(self, loses: impl Fn(&Request<Body>) -> bool + Send + Sync + 'static) -> Self {
        Self { loses: Some(Arc::new(loses)), ..self }
    }

    /// Such requests are answered with 500, and do not land.
    pub fn failing(self, fails: impl Fn(&Request<Body>) -> bool + Send + Sync + 'static) -> Self {
        Self { fails: Some(Arc::new(fails)), ..self }
    }

    /// Each deletion is shown to this, by its path, before it lands.
    pub fn judging(self, judges: impl Fn(String) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self { judges: Some(Arc::new(judges)), ..self }
    }

    fn lags(&self, request: &Request<Body>) -> Option<Answering> {
        let listed = self.lagging.clone().filter(|listed| listed.path == request.uri().path())?;
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            return Some(Box::pin(std::future::pending()));
        }
        let cached = query.contains("resourceVersion=0");
        cached.then(|| Box::pin(async move { Ok(answer(200, listed.body)) }) as _)
    }

    fn late(&self, request: &Request<Body>) -> Option<Duration> {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let slow = self.slow.iter().find(|(plural, _)| request.uri().path().ends_with(plural));
        slow.filter(|_| watch).map(|(_, late)| *late)
    }
}

/// An answer that the server never gave.
fn answer(code: u16, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::from(body).boxed_unsync());
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    answer
}

fn refusal(code: u16, reason: &str) -> Answering {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "refused by the test"});
    Box::pin(async move { Ok(answer(code, status.to_string().into())) })
}

impl Service<Request<Body>> for Line {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.loses.as_ref().is_some_and(|loses| loses(&request)) {
            return Box::pin(std::future::pending());
        }
        let forbidden = |(method, path): &(Option<Method>, &str)| {
            method.as_ref().is_none_or(|method| method == request.method())
                && request.uri().path().contains(path)
        };
        if self.forbidden.as_ref().is_some_and(forbidden) {
            return refusal(403, "Forbidden");
        }
        if self.fails.as_ref().is_some_and(|fails| fails(&request)) {
            return refusal(500, "InternalError");
        }
        if let Some(answering) = self.lags(&request) {
            return answering;
        }
        let counted = request.method() != Method::GET && !request.uri().path().contains("/events");
        let write = if counted { self.writes.0.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let cut = self.cut.filter(|cut| counted && write >= cut.at);
        let (line, late) = (self.clone(), self.late(&request));
        Box::pin(async move {
            if let Some(judges) = line.judges.filter(|_| request.method() == Method::DELETE) {
                judges(request.uri().path().to_owned()).await;
            }
            if let Some(cut) = cut {
                if cut.landed && write == cut.at {
                    line.server.handle(request).await;
                }
                return std::future::pending().await;
            }
            let answer = line.server.handle(request).await;
            let Some(late) = late else { return Ok(answer.map(BodyExt::boxed_unsync)) };
            Ok(answer.map(|body| {
                let frames = BodyStream::new(body).then(move |frame| async move {
                    tokio::time::sleep(late).await;
                    frame
                });
                StreamBody::new(frames).boxed_unsync()
            }))
        })
    }
}
