//! The three ways to change part of an object. All of them are functions of JSON.

mod json;
mod merge;
mod merge_keys;
mod strategic;

use serde_json::Value;

use crate::status::Status;

/// A patch as it arrived.
#[derive(Debug)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

/// The content types of patches, in upstream's order.
pub const MEDIA_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];
/// An applied configuration, which is no change but a wish; JSON is YAML too.
pub const APPLY: &str = "application/apply-patch+yaml";

impl Patch {
    /// `None` for a media type that is not a patch.
    pub fn new(media_type: &str, body: Value) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json(body)),
            "application/merge-patch+json" => Some(Self::Merge(body)),
            "application/strategic-merge-patch+json" => Some(Self::Strategic(body)),
            _ => None,
        }
    }

    /// The object after the patch; the object itself is not touched.
    pub fn apply(&self, object: &Value) -> Result<Value, Status> {
        let patched = match self {
            Self::Json(operations) => json::apply(object.clone(), operations)?,
            Self::Merge(patch) => merge::apply(object.clone(), patch),
            Self::Strategic(patch) => strategic::apply(object.clone(), patch)?,
        };
        if patched.is_object() {
            return Ok(patched);
        }
        Err(Status::bad_request("the patch does not leave an object"))
    }
}
