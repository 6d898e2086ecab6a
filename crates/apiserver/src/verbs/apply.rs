//! PATCH with an applied configuration: creates the object, or makes it what the configuration says.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::create::create_tracked;
use super::input::{self, Input, Source};
use super::options::{FieldValidation, field_validation};
use super::update::{Tracking, change_tracked};
use super::{Actor, Call, Reply, ownership};
use crate::apply::{self, Operation};
use crate::core::Core;
use crate::golang::json_type;
use crate::http::yaml;
use crate::metadata;
use crate::registry::Part;
use crate::status::{ALREADY_EXISTS, Status};

/// How often an object may come and go between looking and writing.
const ATTEMPTS_MAX: usize = 100;

/// A configuration that was read and checked.
struct Config {
    object: Value,
    warnings: Vec<String>,
}

pub async fn run(core: &Arc<Core>, call: &Call, part: Part) -> Result<Reply, Status> {
    let config = read(call)?;
    for _ in 0..ATTEMPTS_MAX {
        let missing = core.object(call.kind.as_ref(), &call.key()).is_none();
        // A subresource needs its object.
        let attempt = match missing && part == Part::Main {
            true => create(core, call, &config).await,
            false => change(core, call, part, &config).await,
        };
        match attempt {
            Err(status) if missing && status.reason == ALREADY_EXISTS => {}
            Err(status) if !missing && part == Part::Main && status.reason == "NotFound" => {}
            other => return other,
        }
    }
    Err(Status::modified(call.info().resource(), call.name()))
}

async fn create(core: &Core, call: &Call, config: &Config) -> Result<Reply, Status> {
    let Input { mut object, mut warnings } = made(core, call, &Value::Null, config)?;
    // There is nothing that it could have been read from.
    metadata::set(&mut object, "resourceVersion", None);
    let uid = metadata::text(&object, "uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(call.info().resource(), call.name(), &why));
    }
    call.may(core, "create")?;
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let actor = Actor::of(call)?;
    warnings.extend(call.kind.warnings(&object, None));
    let json = create_tracked(core, call.kind.as_ref(), namespace, object, &actor, Tracking::Done).await;
    let json = json.map_err(|status| call.warned(status, &warnings))?;
    Ok(Reply::object(StatusCode::CREATED, json, warnings))
}

async fn change(core: &Core, call: &Call, part: Part, config: &Config) -> Result<Reply, Status> {
    let mut warnings = Vec::new();
    let make = |old: &Value| {
        let made = made(core, call, old, config)?;
        warnings = made.warnings;
        warnings.extend(call.kind.warnings(&made.object, Some((old, part))));
        Ok(made.object)
    };
    let json = change_tracked(core, call, part, Tracking::Done, make).await;
    let json = json.map_err(|status| call.warned(status, &warnings))?;
    Ok(Reply::object(StatusCode::OK, json, warnings))
}

/// The object that the configuration makes of what is there, with its record and what to warn of.
fn made(core: &Core, call: &Call, old: &Value, config: &Config) -> Result<Input, Status> {
    let now = ownership::time(core.clock.now());
    let manager = call.query.get("fieldManager");
    let subresource = ownership::subresource(call);
    let writer = ownership::writer(call.info(), subresource, manager, Operation::Apply, &now);
    let shape = ownership::shape(call.kind.as_ref());
    let applied = apply::apply(old, &config.object, shape, &writer, call.query.flag("force"))?;
    let mut object = applied.object;
    ownership::detach(&mut object);
    let Input { mut object, warnings } = input::decode(call, object, &Source::Apply, &[])?;
    input::place(call, &mut object)?;
    input::check_version(call, &object, old)?;
    ownership::attach(&mut object, applied.record);
    Ok(Input { object, warnings: config.warnings.iter().cloned().chain(warnings).collect() })
}

fn read(call: &Call) -> Result<Config, Status> {
    let refused = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let document =
        yaml::read(&call.body).map_err(|error| refused(format!("error converting YAML to JSON: {error}")))?;
    let warnings = document.warnings();
    let strict = document.strict_error();
    let object = match document.value {
        Value::Null => Value::Object(Default::default()),
        object @ Value::Object(_) => object,
        other => {
            return Err(refused(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(&other)
            )));
        }
    };
    check(call, &object)?;
    match (strict, field_validation(&call.query)) {
        (Some(why), Some(FieldValidation::Strict)) => Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {why}"
        ))),
        (_, Some(FieldValidation::Warn)) => Ok(Config { object, warnings }),
        _ => Ok(Config { object, warnings: Vec::new() }),
    }
}

/// An applied configuration says what it is, owns no record, and has only fields that its kind has.
fn check(call: &Call, object: &Value) -> Result<(), Status> {
    let info = call.info();
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let shown = input::shown_kind(api_version, kind);
    if api_version != info.api_version || kind != info.kind {
        return Err(Status::bad_request(format!("invalid object type: {shown}")));
    }
    if !object["metadata"]["managedFields"].is_null() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    apply::check(object, ownership::shape(call.kind.as_ref())).map_err(|mismatches| {
        let (namespace, name) = (metadata::text(object, "namespace"), metadata::name(object));
        let why = format!("failed to create typed patch object ({namespace}/{name}; {shown}): {mismatches}");
        Status::bare(why)
    })
}
