//! Bodies of kinds that only come with a subresource: scales, evictions.

use serde_json::Value;

use super::Call;
use super::input::Input;
use super::options::{FieldValidation, field_validation};
use crate::schema::Schema;
use crate::status::Status;

/// An object of a kind that only comes with a subresource, e.g. a scale.
pub fn decode(call: &Call, mut value: Value, api_version: &str, kind: &str) -> Result<Input, Status> {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let refused = |why: String| {
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    expect_type(&mut value, api_version, kind)?;
    let schema = Schema::get();
    let shape = schema
        .kind(api_version, kind)
        .ok_or_else(|| Status::internal(format!("{kind} is not in the schema")))?;
    let accepted = schema.accept(shape, &value).map_err(refused)?;
    let warnings = judge_unknown(call, &accepted.unknown)?.map_err(refused)?;
    Ok(Input { object: accepted.object, warnings })
}

/// Warnings, or why the body is refused.
fn judge_unknown(call: &Call, unknown: &[String]) -> Result<Result<Vec<String>, String>, Status> {
    let unknown: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    Ok(match field_validation(&call.query).unwrap_or(FieldValidation::Warn) {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(unknown),
        FieldValidation::Strict if unknown.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", unknown.join(", "))),
    })
}

/// A client may leave out what the path says anyway, but not contradict it.
pub fn expect_type(value: &mut Value, expected: &str, expected_kind: &str) -> Result<(), Status> {
    let Some(fields) = value.as_object_mut() else {
        return Err(Status::bad_request("the body of the request is not an object"));
    };
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !api_version.is_empty() && api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != expected_kind {
        let version = expected.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {expected_kind}"
        )));
    }
    fields.insert("apiVersion".into(), expected.into());
    fields.insert("kind".into(), expected_kind.into());
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
    if metadata.is_null() {
        *metadata = Value::Object(Default::default());
    }
    Ok(())
}
