//! A custom resource says what it is, in every request: the server knows it only from that.

use serde_json::Value;

use crate::field::Invalid;
use crate::golang::json_type;
use crate::metadata;
use crate::registry::KindInfo;
use crate::status::Status;

/// How much of a body is shown when it cannot be read.
const SHOWN: usize = 30;

/// Refuses an object that says nothing, or something else than its path.
pub fn check(info: &KindInfo, body: &[u8], object: &Value) -> Result<(), Status> {
    let text = String::from_utf8_lossy(body);
    let start: String = text.chars().take(SHOWN).collect();
    let unrecognized = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({start} ...)",
            info.kind
        ))
    };
    for field in ["kind", "apiVersion"] {
        let value = &object[field];
        if value.is_null() || value.is_string() {
            continue;
        }
        let found = json_type(value);
        return Err(unrecognized(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field .{field} of type string"
        )));
    }
    let kind = object["kind"].as_str().unwrap_or_default();
    if kind.is_empty() {
        return Err(unrecognized(format!("Object 'Kind' is missing in '{}'", text.trim_end())));
    }
    if object["apiVersion"].as_str().unwrap_or_default().is_empty() {
        return Err(unrecognized(format!("Object 'apiVersion' is missing in '{}'", text.trim_end())));
    }
    if kind != info.kind && object["apiVersion"] == *info.api_version {
        let wrong = Invalid::invalid("kind", kind, format!("must be {}", info.kind));
        return Err(Status::invalid(&info.group, kind, metadata::name(object), &[wrong]));
    }
    Ok(())
}
