//! DELETE of one object or of many.

mod options;
mod plan;

use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::{Actor, Call, Outcome, Reply, list, namespace};
use crate::admission::{AdmissionRequest, Operation};
use crate::core::Core;
use crate::kinds::DeleteReply;
use crate::metadata;
use crate::registry::{Kind, KindInfo};
use crate::status::{Resource, Status};
use crate::store::{Change, Expect, Stored, Write, WriteError, json};

pub use options::{Options, Propagation, embedded};
use plan::{Character, Plan, plan};

/// How often a deletion that names no version starts over when others write in between.
const ATTEMPTS_MAX: usize = 1000;

/// Whether an object went away or still waits for somebody.
pub enum Deleted {
    Gone(Arc<Stored>),
    Held(Bytes),
}

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    let options = options::parse(call)?;
    let info = call.info();
    let actor = Actor::of_delete(call, options.dry_run);
    let deleted = delete(core, call.kind.as_ref(), &call.key(), &options, &actor).await?;
    if info.resource() == namespace::RESOURCE && !options.dry_run {
        namespace::empty(core, call.name()).await;
    }
    let json = match deleted {
        Deleted::Held(json) => json,
        Deleted::Gone(object) if info.delete_reply == DeleteReply::Object => object.json.clone(),
        Deleted::Gone(object) => {
            let value = object.value();
            let status = Status::deleted(info.resource(), call.name(), metadata::text(&value, "uid"));
            return Ok(Reply::plain(Outcome::Status { code: StatusCode::OK, status }));
        }
    };
    Ok(Reply::object(StatusCode::OK, json, Vec::new()))
}

/// Deletes everything a selector matches, or one page of it, one by one, and answers with what it found.
pub async fn collection(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    let options = options::parse(call)?;
    let actor = Actor::of_delete(call, options.dry_run);
    let found = list::listed(core, call).await?;
    for object in &found.objects {
        match delete(core, call.kind.as_ref(), &object.key, &options, &actor).await {
            Err(status) if status.reason != "NotFound" => return Err(status),
            _ => {}
        }
        if call.info().resource() == namespace::RESOURCE && !options.dry_run {
            namespace::empty(core, &object.key.name).await;
        }
    }
    Ok(Reply::plain(Outcome::List(found)))
}

/// Deletes one object, or announces its end if something holds it.
pub async fn delete(
    core: &Core,
    kind: &dyn Kind,
    key: &ObjectKey,
    options: &Options,
    actor: &Actor,
) -> Result<Deleted, Status> {
    let info = kind.info();
    for _ in 0..ATTEMPTS_MAX {
        let not_found = || Status::not_found(info.resource(), &key.name);
        let current = core.object(kind, key).ok_or_else(not_found)?;
        let old = current.value();
        check(options, &old, info, &key.name)?;
        if let Some(why) = kind.delete_refusal(&old).map_err(Status::internal)? {
            return Err(Status::forbidden(info.resource(), &key.name, why));
        }
        let request = AdmissionRequest {
            operation: Operation::Delete,
            group: &info.group,
            plural: &info.names.plural,
            kind: &info.kind,
            subresource: "",
            namespace: &key.namespace,
            name: &key.name,
            old: Some(&old),
            user: &actor.user,
            now: core.clock.now(),
            notes: &actor.notes,
        };
        core.validate(&request, &old)?;
        let deletion = kind.deletion(&old, options.grace_period_seconds).map_err(Status::internal)?;
        let inhabited = namespace::is_held(info, &old);
        let character = Character { deletion, dependents: kind.dependents(), inhabited };
        let now = core.clock.now();
        let own = kind.announce_end(&old, now).filter(|_| !metadata::deleting(&old));
        let change = match own.map_or_else(|| plan(&old, options, character, now), Plan::Announce) {
            Plan::Nothing => return Ok(Deleted::Held(current.json.clone())),
            Plan::Remove if options.dry_run => return Ok(Deleted::Gone(current)),
            Plan::Remove => Change::Delete,
            Plan::Announce(mut new) => {
                namespace::mark(info, &mut new);
                if options.dry_run {
                    let json = json(&new).map_err(Status::internal)?;
                    return Ok(Deleted::Held(json.into()));
                }
                Change::Put(new)
            }
        };
        let gone = matches!(change, Change::Delete);
        let expect = Expect::Version(current.version);
        let write = Write { resource: info.table.clone(), key: key.clone(), expect, change };
        match core.write(kind, write).await {
            Ok(object) if gone => {
                namespace::after_removal(core, &key.namespace).await;
                return Ok(Deleted::Gone(object));
            }
            Ok(object) => return Ok(Deleted::Held(object.json.clone())),
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    Err(Status::modified(info.resource(), &key.name))
}

/// Deletes all objects of a kind on the server's own behalf; returns how many somebody holds.
pub async fn remove_all(core: &Core, kind: &dyn Kind) -> Result<usize, Status> {
    let mut held = 0;
    for object in core.page(kind, None, None, None, usize::MAX).map_err(Status::internal)?.objects {
        match delete(core, kind, &object.key, &Options::default(), &Actor::server()).await {
            Ok(Deleted::Held(_)) => held += 1,
            Ok(Deleted::Gone(_)) => {}
            Err(status) if status.reason == "NotFound" => {}
            Err(status) => return Err(status),
        }
    }
    Ok(held)
}

/// Upstream names the kind, not the resource, in these two conflicts.
fn check(options: &Options, object: &Value, info: &KindInfo, name: &str) -> Result<(), Status> {
    let kind = Resource { group: &info.group, plural: &info.kind };
    let (uid, version) = (metadata::text(object, "uid"), metadata::text(object, "resourceVersion"));
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(kind, name, &why));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(Status::conflict(kind, name, &why));
    }
    Ok(())
}
