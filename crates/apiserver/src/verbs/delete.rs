//! DELETE of one object or of many.

use std::sync::Arc;

use bowline_api::ObjectKey;
use bytes::Bytes;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{Actor, Call, Listed, Outcome, Reply, list, namespace};
use crate::admission::{AdmissionRequest, Operation};
use crate::core::Core;
use crate::kinds::{DeleteReply, Deletion};
use crate::metadata;
use crate::registry::Kind;
use crate::status::{Resource, Status};
use crate::store::{Change, Expect, Stored, Write, WriteError};

/// How often a deletion that names no version starts over when others write in between.
const ATTEMPTS_MAX: usize = 1000;

/// From the body or, field by field, from the query. A propagation policy is accepted and has no effect
/// here: dependents go in the background.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Options {
    fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| !values.is_empty())
    }
}

/// Whether an object went away or still waits for somebody.
pub enum Deleted {
    Gone(Arc<Stored>),
    Held(Bytes),
}

pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    let options = options(call)?;
    let info = call.info();
    let actor = Actor::of(call)?;
    let deleted = delete(core, call.kind.as_ref(), &call.key(), &options, &actor).await?;
    if info.resource() == namespace::RESOURCE && !options.is_dry_run() {
        namespace::empty(core, call.name()).await?;
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

/// Deletes everything a selector matches, one by one, and answers with what it found.
pub async fn collection(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    let found = list::everything(core, call)?;
    let (options, actor) = (options(call)?, Actor::of(call)?);
    for object in &found.objects {
        match delete(core, call.kind.as_ref(), &object.key, &options, &actor).await {
            Err(status) if status.reason != "NotFound" => return Err(status),
            _ => {}
        }
        if call.info().resource() == namespace::RESOURCE && !options.is_dry_run() {
            namespace::empty(core, &object.key.name).await?;
        }
    }
    let listed = Listed { version: core.store.version(), objects: found.objects, ..Listed::default() };
    Ok(Reply::plain(Outcome::List(listed)))
}

fn options(call: &Call) -> Result<Options, Status> {
    let mut options: Options = if call.body.is_empty() {
        Options::default()
    } else if !matches!(call.content_type.as_str(), "" | "application/json") {
        return Err(Status::unsupported_media_type(&["application/json"]));
    } else {
        serde_json::from_slice(&call.body)
            .map_err(|error| Status::bad_request(format!("the body is not a DeleteOptions: {error}")))?
    };
    if let Some(seconds) = call.query.number("gracePeriodSeconds")? {
        options.grace_period_seconds = i64::try_from(seconds).ok();
    }
    if call.query.dry_run()? {
        options.dry_run = Some(vec!["All".into()]);
    }
    Ok(options)
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
        let current = core.store.get(&info.table, key).ok_or_else(not_found)?;
        let old = current.value();
        check(options, &old, &key.name)?;
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
        };
        core.validate(&request, &old)?;
        let requested = options.grace_period_seconds;
        let grace = match kind.deletion(&old, requested).map_err(Status::internal)? {
            Deletion::Now => 0,
            Deletion::Graceful(seconds) => seconds.max(0),
        };
        let held = !metadata::finalizers(&old).is_empty() || namespace::is_held(info, &old);
        let change = if grace == 0 && !held {
            Change::Delete
        } else {
            match marked(&old, grace, core.clock.now()) {
                Some(mut new) => {
                    namespace::mark(info, &mut new);
                    Change::Put(new)
                }
                None => return Ok(Deleted::Held(current.json.clone())),
            }
        };
        if options.is_dry_run() {
            return Ok(match change {
                Change::Delete => Deleted::Gone(current),
                Change::Put(_) => Deleted::Held(current.json.clone()),
            });
        }
        let gone = matches!(change, Change::Delete);
        let expect = Expect::Version(current.version);
        let write = Write { resource: info.table.clone(), key: key.clone(), expect, change };
        match core.store.write(write).await {
            Ok(object) if gone => {
                namespace::after_removal(core, &key.namespace).await?;
                return Ok(Deleted::Gone(object));
            }
            Ok(object) => return Ok(Deleted::Held(object.json.clone())),
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Unavailable(why)) => return Err(Status::store(why)),
        }
    }
    Err(Status::modified(info.resource(), &key.name))
}

/// Upstream leaves the resource out of these two conflicts.
fn check(options: &Options, object: &Value, name: &str) -> Result<(), Status> {
    const NAMELESS: Resource<'static> = Resource { group: "", plural: "" };
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let (uid, version) = (metadata::text(object, "uid"), metadata::text(object, "resourceVersion"));
    if let Some(wanted) = wanted.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(NAMELESS, name, &why));
    }
    if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(Status::conflict(NAMELESS, name, &why));
    }
    Ok(())
}

/// The object with its end announced; `None` if it is announced already and no sooner end is asked for.
fn marked(old: &Value, grace: i64, now: Timestamp) -> Option<Value> {
    let mut new = old.clone();
    let announced = old["metadata"]["deletionTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    let end = match announced {
        Some(end) => {
            let before = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            if grace >= before {
                return None;
            }
            // Counted from when the deletion was asked for first.
            end.checked_sub(SignedDuration::from_secs(before - grace)).ok()?
        }
        None => {
            let generation = old["metadata"]["generation"].as_i64().filter(|g| *g > 0);
            if let Some(generation) = generation {
                metadata::set(&mut new, "generation", Some((generation + 1).into()));
            }
            now.checked_add(SignedDuration::from_secs(grace)).ok()?
        }
    };
    metadata::set(&mut new, "deletionTimestamp", Some(metadata::timestamp(end)));
    metadata::set(&mut new, "deletionGracePeriodSeconds", Some(grace.into()));
    Some(new)
}
