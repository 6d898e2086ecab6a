//! Around every request: how long it may take, what all answers have in common, and what is counted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT, VARY,
};
use http::request::Parts;
use http::{HeaderMap, Response};
use tokio::time::Instant;

use crate::auth::User;
use crate::core::Core;
use crate::http::body::{Body, full};
use crate::http::path::{self, Path};
use crate::http::query::Query;
use crate::http::{duration, gzip, indent};
use crate::limits::{Request, Seat};
use crate::metrics::{InFlight, Labels, Outcome, Seen};
use crate::server::Peer;
use crate::status::Status;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longer ones are not the server's to repeat.
const AUDIT_ID_MAX: usize = 64;
const UNCACHED: HeaderValue = HeaderValue::from_static("no-cache, private");
/// The longest a request may take that is no stream. Clients may ask for less.
const PATIENCE: Duration = Duration::from_secs(60);
/// An answer is indented for people as long as it is not larger than this: indenting takes all of it at once.
const INDENTED_MAX: usize = 4 << 20;
/// Smaller answers are sent as they are. Upstream's figure.
const COMPRESS_MIN: usize = 128 << 10;
/// Programs that people look at the output of.
const BROWSERS: [&str; 3] = ["curl/", "Wget/", "Mozilla/"];

mod held;

pub use held::{Abort, Held};

/// One request on its way.
pub struct Exchange {
    core: Arc<Core>,
    started: Instant,
    /// From a connection, and not from inside the process.
    outside: bool,
    audit_id: HeaderValue,
    labels: Option<Labels>,
    timeout: Result<Duration, Status>,
    compress: bool,
    indent: bool,
    request: Request,
    _in_flight: Option<InFlight>,
}

impl Exchange {
    pub fn begin(core: &Arc<Core>, head: &Parts) -> Self {
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let outside = head.extensions.get::<Peer>().is_some();
        let path = path::parse(head.uri.path());
        let seen = Seen {
            method: &head.method,
            path: &path,
            watch: query.flag("watch") || matches!(&path, Path::Resource(resource) if resource.watch),
            dry_run: query.has("dryRun"),
            apply: text(&head.headers, CONTENT_TYPE).starts_with("application/apply-patch"),
        };
        let labels = Labels::of(&core.registry(), &seen);
        let streams = labels.as_ref().is_some_and(Labels::is_long_running);
        Self {
            core: core.clone(),
            started: Instant::now(),
            outside,
            audit_id: audit_id(core, &head.headers),
            timeout: timeout(&query),
            compress: matches!(seen.path, Path::Resource(_)) && is_worth_it(head),
            indent: is_for_people(&head.headers, &query, seen.path),
            request: Request::of(&head.method, seen.path, &query),
            _in_flight: (!streams).then(|| core.metrics.enter(&head.method)),
            labels,
        }
    }

    /// Ends a request that takes too long, as if its client had gone: what it has written stays written.
    pub async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        if !self.outside {
            return answer.await;
        }
        let limit = self.timeout.clone()?;
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(Status::timed_out()))
    }

    /// Waits for the right to be served. Callers in this process need none.
    pub async fn enter(&self, user: &User) -> Result<Option<Seat>, Status> {
        match self.outside {
            true => self.core.limits.enter(user, self.request).await,
            false => Ok(None),
        }
    }

    /// Under which client and audit log find it again.
    pub fn audit_id(&self) -> String {
        self.audit_id.to_str().unwrap_or_default().to_owned()
    }

    /// What all answers have in common.
    pub fn finish(self, response: Response<Body>, held: Held) -> Response<Body> {
        // Counted as it is made: clients that take it compressed do not change its size.
        let size = response.body().size();
        let mut response = if self.outside { self.dress(response) } else { response };
        if self.outside {
            held.until_sent(response.body_mut());
        }
        let (code, took) = (response.status(), self.started.elapsed());
        let Some(labels) = self.labels else { return response };
        if response.body().is_stream() {
            let open = self.core.metrics.follow(labels, code, self.started);
            response.body_mut().hold(open);
            return response;
        }
        let size = size.filter(|_| labels.is_read());
        self.core.metrics.observe(labels, &Outcome { code, took, size });
        response
    }

    fn dress(&self, response: Response<Body>) -> Response<Body> {
        let (mut head, mut body) = response.into_parts();
        head.headers.insert(AUDIT_ID, self.audit_id.clone());
        head.headers.entry(CACHE_CONTROL).or_insert(UNCACHED);
        let json = text(&head.headers, CONTENT_TYPE).starts_with("application/json");
        let encoded = head.headers.contains_key(CONTENT_ENCODING);
        if json && !encoded && self.indent && !body.is_stream() {
            body = body.gathered_within(INDENTED_MAX);
            if let Some(indented) = body.whole().and_then(|json| indent::indented(json)) {
                body = full(indented);
            }
        } else if json
            && !encoded
            && let Some(content) = body.whole().filter(|content| content.len() < COMPRESS_MIN)
            && !content.ends_with(b"\n")
        {
            body = full([content, &b"\n"[..]].concat());
        }
        if self.compress && !encoded && body.size().is_some_and(|size| size > COMPRESS_MIN) {
            body = body.compressed();
            head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        Response::from_parts(head, body)
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A client may bring its own, to find its request again.
fn audit_id(core: &Core, headers: &HeaderMap) -> HeaderValue {
    let brought = headers.get(AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= AUDIT_ID_MAX);
    let fresh = || HeaderValue::from_str(&core.random.uuid()).unwrap_or(HeaderValue::from_static("-"));
    brought.cloned().unwrap_or_else(fresh)
}

/// Compressing takes longer than sending to a client on the same machine.
fn is_worth_it(head: &Parts) -> bool {
    let address = head.extensions.get::<Peer>().and_then(|peer| peer.address);
    let near = address.is_some_and(|address| address.ip().is_loopback());
    !near && gzip::accepted(&head.headers)
}

fn timeout(query: &Query) -> Result<Duration, Status> {
    let text = query.get("timeout");
    if text.is_empty() {
        return Ok(PATIENCE);
    }
    let asked = duration::parse(text).map_err(|why| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    Ok(if asked.is_zero() { PATIENCE } else { asked.min(PATIENCE) })
}

fn is_for_people(headers: &HeaderMap, query: &Query, path: &Path) -> bool {
    // Documents that are large and cached are never indented, and some always are.
    if matches!(path, Path::Other(path) if path.starts_with("openapi")) {
        return false;
    }
    match query.get("pretty") {
        "" => {
            let agent = text(headers, USER_AGENT);
            BROWSERS.iter().any(|name| agent.starts_with(name))
        }
        asked => matches!(asked, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

#[cfg(test)]
mod tests;
