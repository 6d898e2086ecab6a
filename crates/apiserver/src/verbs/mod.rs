//! The verbs. They know no kind, with few exceptions: `binding` and `eviction` of pods, and namespaces.

mod actor;
mod apply;
mod binding;
mod continuation;
mod create;
mod delete;
mod eviction;
mod get;
mod input;
mod list;
mod list_options;
mod namespace;
mod options;
mod other;
mod ownership;
mod patch;
mod precondition;
mod scale;
mod update;
mod watch;
mod watch_state;

use std::pin::Pin;
use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;
use futures::Stream;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionNotes;
use crate::auth::{Attributes, ResourceAttributes, User, review, token};
use crate::core::Core;
use crate::http::accept::{Encoding, Form};
use crate::http::query::Query;
use crate::kinds;
use crate::registry::{Kind, KindInfo, Part};
use crate::status::Status;
use crate::store::Stored;

pub use actor::Actor;
pub use create::{ensure, place};
pub use delete::remove_all;
pub use input::parse as parse_body;
pub use namespace::{follow as follow_namespaces, resume};

/// One request for a resource.
pub struct Call {
    pub kind: Arc<dyn Kind>,
    /// `None` for cluster-scoped kinds and for lists over all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    pub query: Query,
    pub form: Form,
    pub encoding: Encoding,
    /// Without parameters; empty if the client sent none.
    pub content_type: String,
    pub body: Bytes,
    pub user: Arc<User>,
    pub notes: Arc<AdmissionNotes>,
    /// Empty if the client sent none.
    pub user_agent: String,
    /// Ends watches when the server goes down.
    pub closing: CancellationToken,
}

/// What a verb answers.
pub struct Reply {
    pub outcome: Outcome,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

pub enum Outcome {
    /// An object of the kind of the call.
    Object {
        code: StatusCode,
        json: Bytes,
    },
    /// The same, as it is stored: its other encodings may be there already.
    Stored(Arc<Stored>),
    /// An answer of another kind, e.g. a review or a scale, which names its kind itself.
    Other {
        code: StatusCode,
        json: Bytes,
    },
    List(Listed),
    Status {
        code: StatusCode,
        status: Status,
    },
    /// With the moment at which it is over.
    Watch(Pin<Box<dyn Stream<Item = Bytes> + Send>>, Instant),
}

/// A list, or one page of it.
#[derive(Default)]
pub struct Listed {
    pub version: u64,
    pub objects: Vec<Arc<Stored>>,
    /// Where the next page starts; empty at the end.
    pub continue_: String,
    pub remaining: Option<usize>,
}

impl Call {
    pub fn info(&self) -> &KindInfo {
        self.kind.info()
    }

    pub fn key(&self) -> ObjectKey {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        ObjectKey::new(namespace, self.name.as_deref().unwrap_or_default())
    }

    /// The name in the path; empty if there is none.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Refuses what the user may not do with the object of the call beside what the request itself asks for.
    pub fn may(&self, core: &Core, verb: &str) -> Result<(), Status> {
        let info = self.info();
        let asked = Attributes::Resource(ResourceAttributes {
            verb: verb.into(),
            group: info.group.clone().into_owned(),
            version: info.version.clone().into_owned(),
            resource: info.names.plural.clone().into_owned(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone().unwrap_or_default(),
            ..ResourceAttributes::default()
        });
        let decision = core.access.authorizer().decide(&self.user, &asked);
        if decision.allowed { Ok(()) } else { Err(asked.forbidden(&self.user, &decision.reason)) }
    }

    /// What a kind warns of goes with a refusal, too, if the object obeys the rules of its kind.
    fn warned(&self, status: Status, warnings: &[String]) -> Status {
        if self.notes.rules_passed() { status.warned(warnings) } else { status }
    }

    fn not_found(&self) -> Status {
        Status::not_found(self.info().resource(), self.name())
    }
}

impl Reply {
    fn object(code: StatusCode, json: Bytes, warnings: Vec<String>) -> Self {
        Self { outcome: Outcome::Object { code, json }, warnings }
    }

    fn plain(outcome: Outcome) -> Self {
        Self { outcome, warnings: Vec::new() }
    }
}

/// The object in the body of a call, and what to warn of.
pub fn decode_body(call: &Call) -> Result<(Value, Vec<String>), Status> {
    let input = input::body(call)?;
    Ok((input.object, input.warnings))
}

/// Finds the verb for a method and a path, and runs it.
pub async fn run(core: &Arc<Core>, method: &Method, call: Call) -> Result<Reply, Status> {
    let deprecation = kinds::warnings::deprecation(call.info().resource());
    let notes = call.notes.clone();
    let reply = dispatch(core, method, call).await;
    let mut reply = reply.map_err(|status| status.warned(&notes.warnings()))?;
    reply.warnings.extend(notes.warnings());
    reply.warnings.extend(deprecation.map(str::to_owned));
    Ok(reply)
}

async fn dispatch(core: &Arc<Core>, method: &Method, call: Call) -> Result<Reply, Status> {
    if list::wants_latest(method, &call) {
        core.store.fresh().await.map_err(Status::store)?;
    }
    let info = call.info();
    // A path with a namespace for a kind without one, or a name without the namespace it needs.
    let misplaced = call.namespace.is_some() != info.namespaced && (!info.namespaced || call.name.is_some());
    let part = match call.subresource.as_deref() {
        _ if misplaced => return Err(Status::no_such_resource()),
        None if review::applies(info) => return review::run(core, method, &call),
        None => Part::Main,
        Some("token") if token::applies(info) => return token::run(core, method, &call),
        Some("status") if info.status => Part::Status,
        Some("binding") if binding::applies(info) => {
            return match *method {
                Method::POST => binding::run(core, &call).await,
                _ => Err(Status::method_not_allowed()),
            };
        }
        Some("eviction") if eviction::applies(info) => {
            return match *method {
                Method::POST => eviction::run(core, &call).await,
                _ => Err(Status::method_not_allowed()),
            };
        }
        Some("scale") if info.scale.is_some() => return scale::run(core, method, &call).await,
        Some(name) => {
            let own = info.subresources.iter().any(|sub| sub.name == name);
            let part = Part::named(name).filter(|_| own);
            let custom = call.kind.custom().is_some();
            part.ok_or_else(|| if custom { call.not_found() } else { Status::no_such_resource() })?
        }
    };
    if info.verbs == ["create"] {
        // It is handed on, or answered at once, and never there afterwards.
        let found = call.name.is_none();
        return Err(if found { Status::method_not_allowed() } else { Status::no_such_resource() });
    }
    let everywhere = info.namespaced && call.namespace.is_none();
    match (method, call.name.is_some()) {
        (&Method::GET, false) if call.query.flag("watch") => watch::run(core, call).await,
        (&Method::GET, false) => list::run(core, &call).await,
        (&Method::GET, true) => get::run(core, &call).await,
        (&Method::POST, false) if !everywhere => create::run(core, &call).await,
        (&Method::PUT, true) => update::run(core, &call, part).await,
        (&Method::PATCH, true) => patch::run(core, &call, part).await,
        (&Method::DELETE, true) if part == Part::Main => delete::run(core, &call).await,
        (&Method::DELETE, false) if !everywhere && info.verbs.contains(&"deletecollection") => {
            delete::collection(core, &call).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

#[cfg(test)]
mod tests;
