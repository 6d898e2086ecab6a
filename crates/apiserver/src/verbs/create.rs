//! POST: a new object.

use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::input::{self, Input};
use super::options::{self, Verb};
use super::update::Tracking;
use super::{Actor, Call, Reply, namespace, ownership};
use crate::admission::{AdmissionRequest, Operation};
use crate::core::Core;
use crate::metadata;
use crate::registry::Kind;
use crate::status::{ALREADY_EXISTS, Resource, Status};
use crate::store::{Change, Expect, Stored, Write, WriteError, json};

/// Length of what `generateName` gets appended, and of the longest prefix it is appended to.
const SUFFIX: usize = 5;
const PREFIX_MAX: usize = 63 - SUFFIX;
/// Made-up names collide rarely; after this many the client hears of it.
const NAME_ATTEMPTS: usize = 8;

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    options::check(call, Verb::Create)?;
    let Input { object, mut warnings } = input::body(call)?;
    let more = call.kind.warnings(&object, None);
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let actor = Actor::of(call)?;
    let created = create(core, call.kind.as_ref(), namespace, object, &actor).await;
    let json = created.map_err(|status| call.warned(status.warned(&warnings), &more))?;
    warnings.extend(more);
    Ok(Reply::object(StatusCode::CREATED, json, warnings))
}

/// Creates an object on the server's own behalf unless it is there.
pub async fn ensure(core: &Arc<Core>, kind: &dyn Kind, namespace: &str, object: Value) -> Result<(), Status> {
    let decoded = kind.decode(&object).map_err(Status::internal)?;
    match create(core, kind, namespace, decoded.object, &Actor::server()).await {
        Err(status) if status.reason == ALREADY_EXISTS => Ok(()),
        other => other.map(drop),
    }
}

/// From a decoded object to a stored one. `within` is its namespace, empty for cluster-scoped kinds.
pub async fn create(
    core: &Core,
    kind: &dyn Kind,
    within: &str,
    object: Value,
    actor: &Actor,
) -> Result<Bytes, Status> {
    create_tracked(core, kind, within, object, actor, Tracking::Compare).await
}

/// The same, where the object may bring the record of its fields along.
pub async fn create_tracked(
    core: &Core,
    kind: &dyn Kind,
    within: &str,
    mut object: Value,
    actor: &Actor,
    tracking: Tracking,
) -> Result<Bytes, Status> {
    let info = kind.info();
    // One that is no number is as good as none.
    if matches!(metadata::version(&object), Ok(Some(_))) {
        // Upstream answers this one without a reason.
        let text = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", text));
    }
    if kind.custom().is_some_and(|custom| custom.terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(info.resource(), metadata::name(&object), why));
    }
    place(&mut object, info.namespaced, within)?;
    if info.namespaced {
        namespace::accepts_content(core, info.resource(), metadata::name(&object), within)?;
    }
    let prefix = metadata::text(&object, "generateName").to_owned();
    let made_up = metadata::name(&object).is_empty() && !prefix.is_empty();
    let attempts = if made_up && !actor.dry_run { NAME_ATTEMPTS } else { 1 };
    for attempt in 1..=attempts {
        let last = attempt == attempts;
        let mut object = if last { std::mem::take(&mut object) } else { object.clone() };
        if made_up {
            let kept: String = prefix.chars().take(PREFIX_MAX).collect();
            let name = format!("{kept}{}", core.random.name_suffix(SUFFIX));
            metadata::set(&mut object, "name", Some(name.into()));
        }
        let object = prepare(core, kind, within, object, actor, tracking)?;
        let key = ObjectKey::new(within, metadata::name(&object));
        if actor.dry_run {
            return match core.object(kind, &key) {
                Some(there) => Err(taken(info.resource(), &key.name, &prefix, Some(&there))),
                None => json(&object).map(Bytes::from).map_err(Status::internal),
            };
        }
        let name = key.name.clone();
        let write =
            Write { resource: info.table.clone(), key, expect: Expect::Absent, change: Change::Put(object) };
        match core.write(kind, write).await {
            Ok(stored) => {
                if info.namespaced {
                    namespace::after_creation(core, &stored.key.namespace).await;
                }
                return Ok(stored.json.clone());
            }
            Err(WriteError::Conflict { .. }) if !last => {}
            Err(WriteError::Conflict { current }) => {
                return Err(taken(info.resource(), &name, &prefix, current.as_deref()));
            }
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    Err(Status::internal("no free name was found"))
}

/// The refusal of a name that an object has already. `prefix` is what the client wanted a name made of, if anything.
fn taken(resource: Resource<'_>, name: &str, prefix: &str, there: Option<&Stored>) -> Status {
    let mut status = Status::already_exists(resource, name);
    if !prefix.is_empty() {
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status.details.retry_after_seconds = 1;
    }
    if there.is_some_and(|there| metadata::deleting(&there.value())) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// The object belongs where the path says.
pub fn place(object: &mut Value, namespaced: bool, namespace: &str) -> Result<(), Status> {
    let own = metadata::text(object, "namespace");
    // A cluster-scoped object just loses a namespace somebody gave it.
    if namespaced && !own.is_empty() && own != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::set(object, "namespace", namespaced.then(|| namespace.into()));
    Ok(())
}

/// The record, admission, metadata and the rules of the kind.
fn prepare(
    core: &Core,
    kind: &dyn Kind,
    namespace: &str,
    mut object: Value,
    actor: &Actor,
    tracking: Tracking,
) -> Result<Value, Status> {
    let info = kind.info();
    let now = core.clock.now();
    let sent = ownership::detach(&mut object);
    // Before admission: what the server adds is nobody's.
    let record = match tracking {
        Tracking::Compare => ownership::track(kind, "", actor, (&Value::Null, &object), sent, now),
        Tracking::Done => sent,
    };
    let name = metadata::name(&object).to_owned();
    let request = AdmissionRequest {
        operation: Operation::Create,
        group: &info.group,
        plural: &info.names.plural,
        kind: &info.kind,
        subresource: "",
        namespace,
        name: &name,
        old: None,
        user: &actor.user,
        now,
        notes: &actor.notes,
    };
    core.admit(&request, &mut object)?;
    metadata::fill_new(&mut object, core.random.uuid(), now, info.generation);
    let prepared = kind.prepare_create(object, now).map_err(Status::internal)?;
    let mut errors = metadata::validate(&prepared.object, kind);
    errors.extend(prepared.errors);
    errors.extend(ownership::errors(&record));
    core.settle(&mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid(&info.group, &info.kind, &name, &errors));
    }
    actor.notes.pass_rules();
    core.validate(&request, &prepared.object)?;
    let mut object = prepared.object;
    ownership::attach(&mut object, record);
    Ok(object)
}
