//! How much the server does at a time, in total and for each user: upstream's priority and fairness in the small.
//!
//! A request takes a seat until its answer is sent. One user gets a share of the seats and then waits in line, so that a
//! user who floods the server keeps others waiting no longer than their requests take. What the cluster needs to work
//! (kubelets, controllers, the scheduler) has seats of its own. Administrators and callers in this process need none.

mod connections;
mod level;
mod seats;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::auth::User;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::metrics::Metrics;
use crate::status::Status;

pub use connections::{ConnectionOwner, ConnectionSeat, Connections};
pub use level::Level;
use seats::Seats;
use streams::Streams;

/// Upstream's figure, in seconds.
const RETRY_AFTER: u32 = 1;
/// Subresources whose requests last as long as their clients want, as upstream has them.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// 0 is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// Requests that change nothing and are being answered.
    pub max_requests_inflight: usize,
    pub max_mutating_requests_inflight: usize,
    /// Watches, logs and sessions in containers.
    pub max_long_running: usize,
    pub max_long_running_per_user: usize,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// Requests at a time over one connection with HTTP/2.
    pub http2_max_streams_per_connection: u32,
}

impl Default for LimitSettings {
    /// Upstream's figures where it has any.
    fn default() -> Self {
        Self {
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
            max_long_running: 10_000,
            max_long_running_per_user: 2_000,
            max_connections: 8_000,
            max_connections_per_address: 4_000,
            http2_max_streams_per_connection: 100,
        }
    }
}

/// What kind of request asks for a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    ReadOnly,
    Mutating,
    LongRunning,
    /// Whether the server lives: asked by those who restart it.
    Probe,
}

impl Request {
    pub fn of(method: &Method, path: &Path, query: &Query) -> Self {
        let long = match path {
            Path::Resource(resource) => {
                let watch = *method == Method::GET && resource.name.is_none() && query.flag("watch");
                let sub = resource.subresource.as_deref();
                watch || resource.watch || sub.is_some_and(|name| LONG_RUNNING.contains(&name))
            }
            Path::Other(path) => {
                let first = path.split('/').next().unwrap_or_default();
                if matches!(first, "healthz" | "livez" | "readyz") {
                    return Self::Probe;
                }
                false
            }
            _ => false,
        };
        match () {
            () if long => Self::LongRunning,
            () if method.is_safe() => Self::ReadOnly,
            () => Self::Mutating,
        }
    }
}

/// Why a request is refused, in the words of upstream's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
}

impl Refusal {
    pub fn word(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// The right to be served; given back when it is dropped.
pub struct Seat {
    _seat: Taken,
}

enum Taken {
    Request(#[allow(dead_code, reason = "held")] seats::Taken),
    Stream(#[allow(dead_code, reason = "held")] streams::Taken),
}

pub struct Limits {
    pub settings: LimitSettings,
    reads: Seats,
    writes: Seats,
    streams: Arc<Streams>,
    pub connections: Arc<Connections>,
    metrics: Arc<Metrics>,
}

impl Limits {
    pub fn new(settings: LimitSettings, metrics: Arc<Metrics>) -> Self {
        let connections = Connections::new(settings.max_connections, settings.max_connections_per_address);
        Self {
            reads: Seats::new(settings.max_requests_inflight),
            writes: Seats::new(settings.max_mutating_requests_inflight),
            streams: Arc::new(Streams::new(settings.max_long_running, settings.max_long_running_per_user)),
            connections: Arc::new(connections),
            settings,
            metrics,
        }
    }

    /// Waits for a seat, if the user has to. `None` for those who need none.
    pub async fn enter(&self, user: &User, request: Request) -> Result<Option<Seat>, Status> {
        let level = Level::of(user);
        if level == Level::Exempt || request == Request::Probe {
            return Ok(None);
        }
        let tenant = level.tenant(user);
        let taken = match request {
            Request::LongRunning => self.streams.take(level, tenant).map(Taken::Stream),
            Request::Mutating => self.writes.take(level, tenant).await.map(Taken::Request),
            Request::ReadOnly | Request::Probe => self.reads.take(level, tenant).await.map(Taken::Request),
        };
        match taken {
            Ok(seat) => Ok(Some(Seat { _seat: seat })),
            Err(refusal) => {
                if self.metrics.refused(level.flow_schema(user), level.name(), refusal) {
                    let (user, reason) = (&user.name, refusal.word());
                    tracing::warn!(user, ?request, reason, "too many requests: refusing some with 429");
                }
                Err(too_many_requests())
            }
        }
    }
}

pub fn too_many_requests() -> Status {
    const TEXT: &str = "Too many requests, please try again later.";
    let mut status = Status::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", TEXT);
    status.details.retry_after_seconds = RETRY_AFTER;
    status
}
