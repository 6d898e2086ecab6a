//! PUT, and the loop every change of an existing object goes through.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::create::create;
use super::input::{self, Input};
use super::options::{self, Verb};
use super::precondition::check_uid;
use super::{Actor, Call, Reply, namespace, ownership};
use crate::admission::{AdmissionRequest, Operation};
use crate::core::Core;
use crate::field::Invalid;
use crate::metadata;
use crate::registry::Part;
use crate::status::Status;
use crate::store::{Change, Expect, Write, WriteError, json};

/// How often a change that names no version starts over when others write in between. Each time somebody
/// else got through, so this is reached only under a storm.
const ATTEMPTS_MAX: usize = 1000;

/// How the record of who set which field comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// From what a write changes.
    Compare,
    /// It is part of the object already.
    Done,
}

pub async fn run(core: &Arc<Core>, call: &Call, part: Part) -> Result<Reply, Status> {
    options::check(call, Verb::Update)?;
    let Input { object, mut warnings } = input::body(call)?;
    let mut more = Vec::new();
    let put = put(core, call, part, object, &mut more).await;
    let (code, json) = put.map_err(|status| call.warned(status.warned(&warnings), &more))?;
    warnings.extend(more);
    Ok(Reply::object(code, json, warnings))
}

/// Replaces what is there, or creates what may come about this way. `warnings` are those of the kind.
async fn put(
    core: &Core,
    call: &Call,
    part: Part,
    mut object: Value,
    warnings: &mut Vec<String>,
) -> Result<(StatusCode, Bytes), Status> {
    input::place(call, &mut object)?;
    let info = call.info();
    let missing = core.store.get(&info.table, &call.key()).is_none();
    if missing && info.create_on_update && part == Part::Main {
        check_uid(call, &object, &Value::Null)?;
        call.may(core, "create")?;
        let namespace = call.namespace.as_deref().unwrap_or_default();
        *warnings = call.kind.warnings(&object, None);
        let json = create(core, call.kind.as_ref(), namespace, object, &Actor::of(call)?).await?;
        return Ok((StatusCode::CREATED, json));
    }
    let json = change(core, call, part, |old| {
        check_uid(call, &object, old)?;
        if metadata::version(&object)?.is_none() && !info.unconditional_update {
            // Upstream calls the kind by its plural here.
            let why = Invalid::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(Status::invalid(&info.group, &info.names.plural, call.name(), &[why]));
        }
        input::check_version(call, &object, old)?;
        *warnings = call.kind.warnings(&object, Some((old, part)));
        Ok(object.clone())
    })
    .await?;
    Ok((StatusCode::OK, json))
}

/// Reads, changes, checks and writes back, until nobody else wrote in between.
///
/// `make` turns what is stored into what is wanted.
pub async fn change(
    core: &Core,
    call: &Call,
    part: Part,
    make: impl FnMut(&Value) -> Result<Value, Status>,
) -> Result<Bytes, Status> {
    change_tracked(core, call, part, Tracking::Compare, make).await
}

/// The same, where what is wanted may bring the record of its fields along.
pub async fn change_tracked(
    core: &Core,
    call: &Call,
    part: Part,
    tracking: Tracking,
    mut make: impl FnMut(&Value) -> Result<Value, Status>,
) -> Result<Bytes, Status> {
    let (info, actor) = (call.info(), Actor::of(call)?);
    for _ in 0..ATTEMPTS_MAX {
        let current = core.object(call.kind.as_ref(), &call.key()).ok_or_else(|| call.not_found())?;
        let mut old = current.value();
        let mut new = make(&old)?;
        let sent = ownership::detach(&mut new);
        let record = match tracking {
            Tracking::Compare => {
                let (kind, subresource) = (call.kind.as_ref(), ownership::subresource(call));
                ownership::track(kind, subresource, &actor, (&old, &new), sent, core.clock.now())
            }
            Tracking::Done => sent,
        };
        let before = ownership::detach(&mut old);
        let mut new = prepare(core, call, part, new, &old, &actor, ownership::errors(&record))?;
        let same = ownership::unchanged((&new, &record), (&old, &before));
        ownership::attach(&mut new, if same { before } else { record });
        if same && !core.is_outdated(call.kind.as_ref(), &call.key(), &new) {
            return Ok(current.json.clone());
        }
        let encoded = |value: &Value| json(value).map(Bytes::from).map_err(Status::internal);
        if actor.dry_run {
            return encoded(&new);
        }
        // The answer to the update that lets an object go is the object as it would have been.
        let (change, last) = if released(&new) && !namespace::is_held(info, &new) {
            (Change::Delete, Some(encoded(&new)?))
        } else {
            (Change::Put(new), None)
        };
        let expect = Expect::Version(current.version);
        let write = Write { resource: info.table.clone(), key: call.key(), expect, change };
        match core.write(call.kind.as_ref(), write).await {
            Ok(stored) => match last {
                None => return Ok(stored.json.clone()),
                Some(last) => {
                    namespace::after_removal(core, &stored.key.namespace).await;
                    return Ok(last);
                }
            },
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    Err(Status::modified(info.resource(), call.name()))
}

/// Nothing holds the object any more: it is being deleted, its time is up, no finalizer is left.
fn released(object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    metadata::deleting(object) && grace == 0 && metadata::finalizers(object).is_empty()
}

/// Admission, metadata and the rules of the kind.
fn prepare(
    core: &Core,
    call: &Call,
    part: Part,
    mut new: Value,
    old: &Value,
    actor: &Actor,
    mut errors: Vec<Invalid>,
) -> Result<Value, Status> {
    let info = call.info();
    let now = core.clock.now();
    let request = AdmissionRequest {
        operation: Operation::Update,
        group: &info.group,
        plural: &info.names.plural,
        kind: &info.kind,
        subresource: match part {
            // `scale` writes the main part, and is still no write of the main resource.
            Part::Main => call.subresource.as_deref().unwrap_or_default(),
            other => other.subresource(),
        },
        namespace: call.namespace.as_deref().unwrap_or_default(),
        name: call.name(),
        old: Some(old),
        user: &actor.user,
        now,
        notes: &actor.notes,
    };
    core.admit(&request, &mut new)?;
    metadata::carry_over(&mut new, old);
    let prepared = call.kind.prepare_update(new, old, part, now).map_err(Status::internal)?;
    let mut new = prepared.object;
    errors.extend(metadata::validate(&new, call.kind.as_ref()));
    errors.extend(metadata::validate_update(&new, old));
    errors.extend(prepared.errors);
    core.settle(&mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid(&info.group, &info.kind, call.name(), &errors));
    }
    if info.generation && part.is_content() && content_differs(&new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        metadata::set(&mut new, "generation", Some(generation.into()));
    }
    actor.notes.pass_rules();
    core.validate(&request, &new)?;
    Ok(new)
}

/// Whether anything but metadata and status changed.
fn content_differs(new: &Value, old: &Value) -> bool {
    fn content(object: &Value) -> Vec<(&String, &Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status")).collect()
    }
    content(new) != content(old)
}
