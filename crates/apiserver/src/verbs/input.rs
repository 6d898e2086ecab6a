//! From a body to an object of the kind of the call.

use http::StatusCode;
use serde_json::Value;

use super::options::{FieldValidation, field_validation};
use super::{Call, ownership};
use crate::field::Invalid;
use crate::metadata;
use crate::status::Status;

/// Where an object came from; the errors differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Body,
    Patch,
    Apply,
}

/// An object and what to warn of.
pub struct Input {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Bodies of creates and updates are JSON; a client that names no type means JSON.
pub fn parse(call: &Call) -> Result<Value, Status> {
    if !matches!(call.content_type.as_str(), "" | "application/json") {
        return Err(Status::unsupported_media_type(&["application/json"]));
    }
    crate::http::body::parse(&call.body)
}

/// Checks types, drops unknown fields, sets defaults.
pub fn decode(call: &Call, mut value: Value, source: Source) -> Result<Input, Status> {
    let info = call.info();
    let refused = |why: String| match source {
        Source::Body => Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
            kind = info.kind,
            version = info.version,
        )),
        Source::Patch => {
            let patch = String::from_utf8_lossy(&call.body).into_owned();
            Status::invalid("", "", "", &[Invalid::invalid("patch", patch, why)])
        }
        Source::Apply => {
            let shown = shown_kind(&info.api_version, &info.kind);
            let text = format!(
                "failed to convert new object ({}/{}; {shown}) to proper version: unable to convert unstructured object to {shown}: {why}",
                call.namespace.as_deref().unwrap_or_default(),
                call.name(),
            );
            Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", text)
        }
    };
    check_type(call, &mut value)?;
    // Nothing that the rules of a kind look at.
    let record = ownership::detach(&mut value);
    let mut decoded = call.kind.decode(&value).map_err(refused)?;
    ownership::attach(&mut decoded.object, record);
    let unknown: Vec<String> = decoded.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    let mut warnings = match field_validation(&call.query).unwrap_or(FieldValidation::Warn) {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => unknown,
        FieldValidation::Strict if unknown.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            return Err(refused(format!("strict decoding error: {}", unknown.join(", "))));
        }
    };
    let mut object = decoded.object;
    let moment = match source {
        Source::Body => "",
        Source::Patch | Source::Apply => " after mutating admission happens",
    };
    warnings.extend(metadata::fold_owners(&mut object, moment));
    Ok(Input { object, warnings })
}

/// A client may leave out what the path says anyway, but not contradict it.
fn check_type(call: &Call, value: &mut Value) -> Result<(), Status> {
    let info = call.info();
    let Some(fields) = value.as_object_mut() else {
        return Err(Status::bad_request("the body of the request is not an object"));
    };
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !api_version.is_empty() && api_version != info.api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            info.api_version
        )));
    }
    if !kind.is_empty() && kind != info.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}",
            info.version, info.kind
        )));
    }
    fields.insert("apiVersion".into(), info.api_version.as_ref().into());
    fields.insert("kind".into(), info.kind.as_ref().into());
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
    if metadata.is_null() {
        *metadata = Value::Object(Default::default());
    }
    Ok(())
}

/// What comes out of a patch is still the object of the path.
pub fn check_place(call: &Call, object: &Value) -> Result<(), Status> {
    let own = metadata::text(object, "namespace");
    if call.info().namespaced && !own.is_empty() && own != call.namespace.as_deref().unwrap_or_default() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let (name, expected) = (metadata::name(object), call.name());
    if !name.is_empty() && name != expected {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        )));
    }
    Ok(())
}

/// A patch may name the version it was made for.
pub fn check_version(call: &Call, object: &Value, old: &Value) -> Result<(), Status> {
    let same = metadata::text(object, "resourceVersion") == metadata::text(old, "resourceVersion");
    if !same && metadata::version(object)?.is_some() && !old.is_null() {
        return Err(Status::modified(call.info().resource(), call.name()));
    }
    Ok(())
}

/// A kind as upstream's errors show it, e.g. `apps/v1, Kind=Deployment`.
pub fn shown_kind(api_version: &str, kind: &str) -> String {
    let group = if api_version.contains('/') { "" } else { "/" };
    format!("{group}{api_version}, Kind={kind}")
}

/// What Go calls a JSON value.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
