//! What is served under which path.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

use super::access::{Access, Denied};
use super::health::{self, Check, Checks};
use crate::metrics::Metrics;

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const SAMPLES: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A status and a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub text: String,
    kind: HeaderValue,
}

impl Answer {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), kind: PLAIN }
    }

    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, text)
    }

    pub fn json(value: &serde_json::Value) -> Self {
        Self { kind: JSON, ..Self::ok(value.to_string()) }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.kind);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        response
    }
}

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

#[derive(Clone)]
enum Page {
    Metrics(Metrics),
    Health(Checks),
    Check(Check),
    Custom(Arc<dyn Fn() -> Answering + Send + Sync>),
}

/// All pages of one server.
#[derive(Clone)]
pub struct Pages {
    pages: BTreeMap<String, Page>,
    access: Arc<dyn Access>,
}

impl Pages {
    pub fn new(access: impl Access + 'static) -> Self {
        Self { pages: BTreeMap::new(), access: Arc::new(access) }
    }

    pub fn metrics(mut self, path: &str, metrics: &Metrics) -> Self {
        self.pages.insert(path.to_owned(), Page::Metrics(metrics.clone()));
        self
    }

    /// `/healthz`, `/livez` or `/readyz`, and each check by its name below it.
    pub fn health(mut self, path: &str, checks: impl Into<Checks>) -> Self {
        self.pages.insert(path.to_owned(), Page::Health(checks.into()));
        self
    }

    /// One check on a path of its own, such as `/healthz/leader-election`.
    pub fn check(mut self, path: &str, check: Check) -> Self {
        self.pages.insert(path.to_owned(), Page::Check(check));
        self
    }

    /// A page with statuses of its own.
    pub fn page<F, Fut>(mut self, path: &str, make: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer> + Send + 'static,
    {
        self.pages.insert(path.to_owned(), Page::Custom(Arc::new(move || Box::pin(make()))));
        self
    }

    /// The page of this path, or of one check below a page of health.
    fn find(&self, path: &str) -> Option<Page> {
        self.pages.get(path).cloned().or_else(|| {
            let (above, name) = path.rsplit_once('/')?;
            let Page::Health(checks) = self.pages.get(above)? else { return None };
            checks.all().into_iter().find(|check| check.name == name).map(Page::Check)
        })
    }

    pub(super) async fn answer(&self, request: &Parts) -> Answer {
        let path = request.uri.path();
        if let Err(denied) = self.access.allow(request).await {
            return refusal(&denied, request);
        }
        let Some(page) = self.find(path) else {
            return Answer::new(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        if request.method != Method::GET && request.method != Method::HEAD {
            return Answer::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served\n");
        }
        match &page {
            // Upstream does not negotiate OpenMetrics either.
            Page::Metrics(metrics) => Answer { kind: SAMPLES, ..Answer::ok(metrics.text()) },
            Page::Health(checks) => {
                health::answer(path, request.uri.query().unwrap_or_default(), &checks.all()).await
            }
            Page::Check(check) => check.answer().await,
            Page::Custom(make) => make().await,
        }
    }
}

/// A `Status`, as upstream's generic server answers.
fn refusal(denied: &Denied, request: &Parts) -> Answer {
    let verb = request.method.as_str().to_ascii_lowercase();
    let (status, reason, message) = match denied {
        Denied::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned()),
        Denied::Forbidden { user } => {
            let message = format!("forbidden: User {user:?} cannot {verb} path {:?}", request.uri.path());
            (StatusCode::FORBIDDEN, "Forbidden", message)
        }
        Denied::Unknown(why) => {
            tracing::warn!(path = request.uri.path(), error = %why, "review a request for health or metrics");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "the request could not be reviewed".to_owned(),
            )
        }
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": {}, "code": status.as_u16(),
    });
    Answer { status, text: body.to_string(), kind: JSON }
}
