//! From a body to an object of the kind of the call.

use serde_json::Value;

use super::Call;
use crate::custom::type_meta;
use crate::field::Invalid;
use crate::metadata;
use crate::status::Status;

/// What to do about fields the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Where an object came from; the errors differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Body,
    Patch,
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
    };
    if call.kind.custom().is_some() && source == Source::Body {
        type_meta::check(info, &call.body, &value)?;
    }
    check_type(call, &mut value)?;
    let decoded = call.kind.decode(&value).map_err(refused)?;
    let unknown: Vec<String> = decoded.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    let mut warnings = match field_validation(call)? {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => unknown,
        FieldValidation::Strict if unknown.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            return Err(refused(format!("strict decoding error: {}", unknown.join(", "))));
        }
    };
    warnings.extend(call.kind.warnings(&decoded.object));
    let mut object = decoded.object;
    let moment = match source {
        Source::Body => "",
        Source::Patch => " after mutating admission happens",
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

fn field_validation(call: &Call) -> Result<FieldValidation, Status> {
    match call.query.get("fieldValidation") {
        "Ignore" => Ok(FieldValidation::Ignore),
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(Status::bad_request(format!(
            "fieldValidation: Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        ))),
    }
}
