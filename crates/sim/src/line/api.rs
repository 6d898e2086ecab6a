//! The line of one process to the API server: delays, lost messages, bad answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_apiserver::Store;
use bowline_apiserver::auth::User;
use bowline_host::Random;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tower::{BoxError, Service};

use super::effect::{Effect, Sort, of_request};
use super::{Caller, watch};
use crate::fault::{Fault, Kind, Opportunity};
use crate::servers::{ApiServers, Reached};

pub type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Longer than any client waits for an answer.
const LATE: Duration = Duration::from_secs(70);
/// How long it takes to learn that nothing gets through.
const UNREACHABLE: Duration = Duration::from_secs(5);
/// How far behind a lagging replica is, in versions: at least, and at most for a kind that changes rarely.
const LAG: u64 = 12;
const LAG_MAX: u64 = 150;

/// The API servers as one process reaches them.
#[derive(Clone)]
pub struct ApiLine {
    pub caller: Caller,
    pub servers: Arc<ApiServers>,
    pub asks_as: AsksAs,
}

/// On whose behalf requests are made.
#[derive(Clone)]
pub enum AsksAs {
    /// A person may everything.
    Person,
    /// The oracle knows what it may, by program or service account.
    Role(Arc<str>),
    /// The API server knows what it may.
    Node(User),
}

impl AsksAs {
    pub fn node(name: &str) -> Self {
        let groups = vec!["system:nodes".to_owned(), "system:authenticated".to_owned()];
        Self::Node(User { name: format!("system:node:{name}"), groups, ..User::default() })
    }
}

impl Service<Request<Body>> for ApiLine {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let line = self.clone();
        Box::pin(async move {
            let answer = line.carry(request).await;
            // A process that has died meanwhile hears nothing.
            line.caller.life.pass().await;
            answer
        })
    }
}

impl ApiLine {
    async fn carry(&self, mut request: Request<Body>) -> Result<Answer, BoxError> {
        let (caller, shared) = (&self.caller, &self.caller.shared);
        caller.life.pass().await;
        if caller.person {
            let reached = self.wait().await;
            return self.land(&reached, request, None).await;
        }
        shared.hold_up().await;
        caller.life.pass().await;
        if caller.life.cut_off_until().is_some() {
            tokio::time::sleep(UNREACHABLE).await;
            return Err("no route to the API server".into());
        }
        let Ok(reached) = self.servers.reach(shared.next_u64()) else {
            return Err("connection refused by the API server's machine".into());
        };
        match &self.asks_as {
            AsksAs::Person => {}
            AsksAs::Role(role) => shared.oracle().asks(role, &request),
            AsksAs::Node(user) => drop(request.extensions_mut().insert(user.clone())),
        }
        let effect = of_request(&request);
        if effect.sort != Sort::Watch {
            shared.oracle().sends(&caller.process, &effect);
        }
        if effect.sort == Sort::Write && !effect.name.ends_with(" lease") && !effect.name.ends_with(" event")
        {
            caller.begins(&effect.name);
        }
        let behind = behind(&request, reached.server.store());
        let opportunity = match effect.sort {
            Sort::Write => Opportunity::Write,
            Sort::Read if behind.is_some() => Opportunity::LaggingList,
            Sort::Read => Opportunity::Read,
            Sort::Watch => Opportunity::Watch,
        };
        let about = || effect.object.clone();
        let fault = shared.strike_line(opportunity, &effect.name, &caller.process, about).await;
        let Some(fault) = fault else { return self.whole(&reached, request, &effect, None).await };
        match fault.kind {
            Kind::LostRequest => Err("connection reset before the request was sent".into()),
            Kind::Conflict => Ok(refusal(409, "Conflict", "the object has been modified")),
            Kind::TooMany => Ok(refusal(429, "TooManyRequests", "try again later")),
            Kind::ServerError => {
                // Some servers fail after the write has landed.
                if effect.sort == Sort::Write && !fault.nth.is_multiple_of(2) {
                    self.whole(&reached, request, &effect, None).await?;
                }
                Ok(refusal(500, "InternalError", "the server has a bad day"))
            }
            Kind::LostAnswer => {
                self.whole(&reached, request, &effect, None).await?;
                Err("connection reset before the answer came".into())
            }
            Kind::GatewayTimeout => {
                self.whole(&reached, request, &effect, None).await?;
                Ok(refusal(504, "Timeout", "request did not complete within the allotted timeout"))
            }
            Kind::LateLanding => {
                let (line, name) = (self.clone(), effect.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    let reached = line.wait().await;
                    let _ = line.whole(&reached, request, &name, None).await;
                });
                std::future::pending().await
            }
            Kind::Lagging => {
                if let Some(then) = behind {
                    lag(&mut request, then);
                }
                self.whole(&reached, request, &effect, None).await
            }
            Kind::ServerCrash => {
                if fault.nth.is_multiple_of(2) {
                    self.servers.stop_syncing();
                }
                let _ = self.whole(&reached, request, &effect, None).await;
                self.servers.crash();
                shared.oracle().restarted(&self.servers.store());
                Err("connection reset when the API server died".into())
            }
            _ => self.whole(&reached, request, &effect, Some(fault)).await,
        }
    }

    /// A server, as soon as one runs.
    async fn wait(&self) -> Reached {
        loop {
            match self.servers.reach(0) {
                Ok(reached) => return reached,
                Err(up_at) => tokio::time::sleep_until(up_at).await,
            }
        }
    }

    /// The request reaches the server and is dealt with there, whatever becomes of the caller.
    async fn whole(
        &self,
        reached: &Reached,
        request: Request<Body>,
        effect: &Effect,
        fault: Option<Fault>,
    ) -> Result<Answer, BoxError> {
        let (line, shared) = (self.clone(), self.caller.shared.clone());
        if effect.sort == Sort::Watch {
            let answer = self.land(reached, request, None).await?;
            let died = reached.died.clone();
            return Ok(answer.map(|body| watch::carried(body, self.caller.clone(), died, fault)));
        }
        let (reached, asked) = (reached.clone(), effect.clone());
        let answer = tokio::spawn(async move { line.land(&reached, request, Some(&asked)).await }).await??;
        if effect.sort == Sort::Write {
            let status = answer.status().as_u16();
            shared.say(format_args!("{} {} {} {status}", self.caller.process, effect.name, effect.object));
        }
        shared.hold_up().await;
        Ok(answer)
    }

    async fn land(
        &self,
        reached: &Reached,
        request: Request<Body>,
        effect: Option<&Effect>,
    ) -> Result<Answer, BoxError> {
        let answer = reached.server.handle(request).await;
        self.caller.shared.oracle().look();
        if let (StatusCode::FORBIDDEN, AsksAs::Node(_), Some(effect)) =
            (answer.status(), &self.asks_as, effect)
        {
            let behind = self.servers.may_be_behind();
            self.caller.shared.oracle().node_refused(&self.caller.process, effect, behind);
        }
        if reached.died.is_cancelled() {
            return Err("connection reset when the API server died".into());
        }
        Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}

/// A list that any server may answer with what it has.
const ANY_VERSION: &str = "resourceVersion=0&resourceVersionMatch=NotOlderThan";

/// The version that a server which is behind would answer from, if its answer differs. A list that asks for a certain version
/// has none: a server that has not got there would have to wait.
fn behind(request: &Request<Body>, store: &Store) -> Option<u64> {
    request.uri().query().filter(|query| query.contains(ANY_VERSION))?;
    let parts: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    let resource: Arc<str> = match parts.as_slice() {
        ["api", _, resource] => (*resource).into(),
        ["apis", group, _, resource] => format!("{resource}.{group}").into(),
        _ => return None,
    };
    let now = store.version();
    let oldest = now.saturating_sub(LAG_MAX);
    let oldest = store.watch(&resource, oldest).map_or_else(|gone| gone.oldest, |_| oldest);
    let changes = store.watch(&resource, oldest).ok()?.ready().ok()?;
    let last = changes.last()?;
    Some(now.saturating_sub(LAG).min(last.version - 1).max(oldest))
}

/// Lets a list be answered from the past.
fn lag(request: &mut Request<Body>, then: u64) {
    let query = request.uri().query().unwrap_or_default();
    let exact = format!("resourceVersion={then}&resourceVersionMatch=Exact");
    let query = query.replace(ANY_VERSION, &exact);
    if let Ok(uri) = format!("{}?{query}", request.uri().path()).parse() {
        *request.uri_mut() = uri;
    }
}

/// A Status that the server never sent.
fn refusal(code: u16, reason: &str, message: &str) -> Answer {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let body = Full::from(body.to_string()).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        answer.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    answer
}
