//! Answers that are not objects: the `Status` of the Kubernetes API, phrased as upstream phrases it.

use std::collections::HashSet;

use http::StatusCode;
use serde_json::{Value, json};

use crate::field::Invalid;

pub const ALREADY_EXISTS: &str = "AlreadyExists";

/// An error (or the bare success of a delete) as it goes over the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    /// Upstream's machine-readable word, e.g. `NotFound`; empty where upstream has none.
    pub reason: &'static str,
    pub message: String,
    pub details: Details,
    /// Where a list that took too long may go on, if it does not mind having missed changes.
    pub continue_: String,
    /// What the client is warned of although it is refused; these travel as headers.
    pub warnings: Vec<String>,
}

/// What a Status is about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// A plural for most errors, a kind for `Invalid`: upstream mixes the two.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

/// One reason behind an error.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// Each text where it stands first; a body can bring very many.
pub fn each_once(texts: &[String]) -> Vec<&str> {
    let mut seen = HashSet::new();
    texts.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect()
}

/// Group and plural, written `plural.group` (`plural` alone in the core group).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub plural: &'a str,
}

impl std::fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl Status {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: code.as_u16(),
            reason,
            message: message.into(),
            details: Details::default(),
            continue_: String::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds what the request is warned of beside.
    pub fn warned(mut self, warnings: &[String]) -> Self {
        self.warnings.extend_from_slice(warnings);
        self
    }

    /// Says what a status is about.
    pub fn about(mut self, resource: Resource<'_>, name: &str) -> Self {
        self.details.group = resource.group.into();
        self.details.kind = resource.plural.into();
        self.details.name = name.into();
        self
    }

    pub fn not_found(resource: Resource<'_>, name: &str) -> Self {
        let message = format!("{resource} {name:?} not found");
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    pub fn already_exists(resource: Resource<'_>, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::new(StatusCode::CONFLICT, ALREADY_EXISTS, message).about(resource, name)
    }

    /// Another write came in between, or a precondition does not hold.
    pub fn conflict(resource: Resource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// The usual conflict: the resourceVersion is not the latest.
    pub fn modified(resource: Resource<'_>, name: &str) -> Self {
        const WHY: &str =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, WHY)
    }

    /// Fields of an apply belong to others.
    pub fn apply_conflict(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub fn forbidden(resource: Resource<'_>, name: &str, why: &str) -> Self {
        let message = match (resource.plural, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// Fields that break rules of their kind. `kind` is the kind, not the plural.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[Invalid]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut message = format!("{qualified} {name:?} is invalid");
        // Upstream folds repeated texts and brackets only what is left.
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        match &each_once(&texts)[..] {
            [] => {}
            [one] => message.push_str(&format!(": {one}")),
            many => message.push_str(&format!(": [{}]", many.join(", "))),
        }
        let mut status = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        status.details.group = group.into();
        status.details.kind = kind.into();
        status.details.name = name.into();
        status.details.causes = errors
            .iter()
            .map(|e| Cause { reason: e.reason.code().into(), message: e.body(), field: e.field.clone() })
            .collect();
        status
    }

    /// Not now. The client may try again, after a while if one is given.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32, cause: Cause) -> Self {
        let mut status = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        status.details.retry_after_seconds = retry_after_seconds;
        status.details.causes = vec![cause];
        status
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn method_not_allowed() -> Self {
        const TEXT: &str = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", TEXT)
    }

    /// A resource, or a subresource, that this group and version does not have.
    pub fn no_such_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// Upstream's router refuses patches that it does not know before anybody looks at them.
    pub fn unsupported_patch() -> Self {
        const TEXT: &str = "415: Unsupported Media Type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", TEXT)
    }

    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The answer would be larger than what is written as YAML.
    pub fn too_large_for_yaml(max: usize) -> Self {
        let message = format!(
            "the answer is larger than {max} bytes, the most that is written as YAML: ask for application/json, or for fewer objects with limit"
        );
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// What upstream's router says before anything looks at the request.
    pub fn no_representation(served: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", served.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The request took longer than it may.
    pub fn timed_out() -> Self {
        const TEXT: &str = "Timeout: request did not complete within the allotted timeout";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", TEXT)
    }

    pub fn too_large(why: &str) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// A watch or a page asks for history that is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// A resourceVersion that this server has not reached yet.
    pub fn version_too_large(wanted: u64, current: u64) -> Self {
        let text = format!("Too large resource version: {wanted}, current: {current}");
        let mut status = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {text}"));
        status.details.causes = vec![Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        }];
        status.details.retry_after_seconds = 1;
        status
    }

    pub fn internal(why: impl std::fmt::Display) -> Self {
        let mut status = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {why}"),
        );
        status.details.causes =
            vec![Cause { reason: String::new(), message: why.to_string(), field: String::new() }];
        status
    }

    /// A failure that upstream passes on as it is.
    pub fn bare(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// A patch that parses but cannot be applied; upstream hides the reason.
    pub fn unprocessable() -> Self {
        const TEXT: &str = "the server rejected our request due to an error in our request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", TEXT)
    }

    /// What a delete answers for kinds that do not answer with the object.
    pub fn deleted(resource: Resource<'_>, name: &str, uid: &str) -> Self {
        let mut status = Self::new(StatusCode::OK, "", "").about(resource, name);
        status.details.uid = uid.into();
        status
    }

    pub fn is_success(&self) -> bool {
        self.code < 400
    }

    /// Upstream makes these by hand and without details, where others have empty ones.
    fn is_terse(&self) -> bool {
        match self.reason {
            "" | "BadRequest" | "Unauthorized" | "RequestEntityTooLarge" | "Expired" => true,
            "UnsupportedMediaType" => !self.message.starts_with("415"),
            "NotAcceptable" => !self.message.starts_with("406"),
            _ => false,
        }
    }

    /// The object of the wire.
    pub fn to_json(&self) -> Value {
        let mut out = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": if self.is_success() { "Success" } else { "Failure" },
        });
        if !self.continue_.is_empty() {
            out["metadata"]["continue"] = self.continue_.as_str().into();
        }
        if !self.message.is_empty() {
            out["message"] = self.message.as_str().into();
        }
        if !self.reason.is_empty() {
            out["reason"] = self.reason.into();
        }
        let details = self.details.to_json();
        if !self.is_terse() || details != json!({}) {
            out["details"] = details;
        }
        if self.code != StatusCode::OK.as_u16() {
            out["code"] = self.code.into();
        }
        out
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut out = json!({});
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                out[key] = text.as_str().into();
            }
        }
        if !self.causes.is_empty() {
            out["causes"] = self.causes.iter().map(Cause::to_json).collect();
        }
        if self.retry_after_seconds > 0 {
            out["retryAfterSeconds"] = self.retry_after_seconds.into();
        }
        out
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut out = json!({});
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out[key] = text.as_str().into();
            }
        }
        out
    }
}

mod store;
#[cfg(test)]
mod tests;
