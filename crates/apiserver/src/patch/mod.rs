//! The three ways to change part of an object. All of them are functions of JSON.

mod json;
mod merge;
mod merge_keys;
mod strategic;

use serde_json::Value;

use crate::golang::{json_type, quoted};
use crate::json as reader;
use crate::status::Status;

/// A patch as it arrived.
#[derive(Debug)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

/// A patch and what a strict reader has to say of it.
#[derive(Debug)]
pub struct Sent {
    pub patch: Patch,
    pub notes: Vec<String>,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
/// Needs to know how the lists of a kind merge, which custom resources do not say.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// An applied configuration, which is no change but a wish; JSON is YAML too.
pub const APPLY: &str = "application/apply-patch+yaml";

/// The content types of patches, in upstream's order.
pub const MEDIA_TYPES: [&str; 4] = [JSON, MERGE, STRATEGIC, APPLY];

/// Reads a patch of one of the first three kinds.
pub fn read(media_type: &str, body: &[u8]) -> Result<Sent, Status> {
    let refused = |why: String| match media_type {
        STRATEGIC => Status::bad_request(why),
        _ => Status::bad_request(format!("error decoding patch: {why}")),
    };
    let reader::Reading { value, duplicates } = reader::read(body).map_err(refused)?;
    let told = |what: &str| -> Vec<String> {
        duplicates.iter().map(|path| format!("{what}duplicate field {}", quoted(path))).collect()
    };
    if media_type == JSON {
        let unknown = json::check(&value)?;
        let unknown = unknown.iter().map(|path| format!("json patch unknown field {}", quoted(path)));
        let notes = told("json patch ").into_iter().chain(unknown).collect();
        return Ok(Sent { patch: Patch::Json(value), notes });
    }
    let notes = told("");
    let patch = match (media_type, value) {
        (MERGE, Value::Null) => return Err(Status::bad_request("Invalid JSON Patch")),
        (MERGE, value @ Value::Object(_)) => Patch::Merge(value),
        (STRATEGIC, Value::Null) => Patch::Strategic(Value::Object(Default::default())),
        (STRATEGIC, value @ Value::Object(_)) => Patch::Strategic(value),
        (MERGE | STRATEGIC, other) => {
            let found = json_type(&other);
            return Err(refused(format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
        _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    };
    Ok(Sent { patch, notes })
}

impl Patch {
    /// What the patch leaves; the object itself is not touched.
    pub fn apply(&self, object: &Value) -> Result<Value, Status> {
        match self {
            Self::Json(operations) => json::apply(object.clone(), operations),
            Self::Merge(patch) => Ok(merge::apply(object.clone(), patch)),
            Self::Strategic(patch) => strategic::apply(object.clone(), patch),
        }
    }
}
