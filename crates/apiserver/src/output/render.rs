//! From what a verb answers to an HTTP response.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::partial::{API_VERSION, partial};
use super::table::{Include, columns, row, table};
use crate::http::accept::{Encoding, Form};
use crate::http::body::{Body, full, stream};
use crate::protobuf;
use crate::registry::Kind;
use crate::status::Status;
use crate::verbs::{Listed, Outcome, Reply};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROTOBUF: HeaderValue = HeaderValue::from_static(protobuf::MEDIA_TYPE);
const PROTOBUF_STREAM: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");

/// `include` is the parameter `includeObject`.
pub fn reply(
    kind: &dyn Kind,
    (form, encoding): (Form, Encoding),
    include: &str,
    reply: Reply,
    now: Timestamp,
) -> Response<Body> {
    let include = Include::parse(include);
    let (code, (media, body)) = match reply.outcome {
        Outcome::Object { code, json } => (code, whole(encoding, object(kind, form, include, json, now))),
        Outcome::List(listed) => {
            let binary = (encoding, form) == (Encoding::Protobuf, Form::Object);
            let body = match binary.then(|| binary_list(kind, &listed)).flatten() {
                Some(body) => (PROTOBUF, full(body)),
                None => whole(encoding, list(kind, form, include, &listed, now)),
            };
            (StatusCode::OK, body)
        }
        Outcome::Other { code, json } => (code, whole(encoding, json)),
        Outcome::Status { code, status } => (code, whole(encoding, status.to_json().to_string().into())),
        Outcome::Watch(chunks) => {
            let media = if encoding == Encoding::Protobuf { PROTOBUF_STREAM } else { JSON };
            (StatusCode::OK, (media, stream(chunks)))
        }
    };
    let mut response = response(code, body);
    response.headers_mut().insert(CONTENT_TYPE, media);
    for warning in &reply.warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// An error.
pub fn status(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response(code, full(status.to_json().to_string()));
    if status.details.retry_after_seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, status.details.retry_after_seconds.into());
    }
    response
}

fn response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A whole answer in the wanted encoding; what has no binary form stays JSON and says so.
fn whole(encoding: Encoding, json: Bytes) -> (HeaderValue, Body) {
    let binary = match encoding {
        Encoding::Json => None,
        Encoding::Protobuf => serde_json::from_slice(&json).ok().and_then(|value| protobuf::encode(&value)),
    };
    match binary {
        Some(bytes) => (PROTOBUF, full(bytes)),
        None => (JSON, full(json)),
    }
}

fn binary_list(kind: &dyn Kind, listed: &Listed) -> Option<Vec<u8>> {
    let info = kind.info();
    let objects = listed.objects.iter().map(|object| object.json.as_ref());
    protobuf::encode_list((&info.api_version, &info.kind), &list_metadata(listed), objects)
}

fn object(kind: &dyn Kind, form: Form, include: Include, json: Bytes, now: Timestamp) -> Bytes {
    match form {
        Form::Object => json,
        Form::Partial => partial(&json).to_string().into(),
        Form::Table => {
            let version = &super::partial::metadata(&json)["resourceVersion"];
            let rows = vec![row(kind, &json, include, now)];
            table(Some(columns(kind)), rows, json!({"resourceVersion": version})).to_string().into()
        }
    }
}

fn list_metadata(listed: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": listed.version.to_string()});
    if !listed.continue_.is_empty() {
        metadata["continue"] = listed.continue_.as_str().into();
    }
    if let Some(remaining) = listed.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

fn list(kind: &dyn Kind, form: Form, include: Include, listed: &Listed, now: Timestamp) -> Bytes {
    let metadata = list_metadata(listed);
    let info = kind.info();
    match form {
        Form::Object => {
            let head = format!(
                "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
                info.kind, info.api_version
            );
            joined(&head, listed)
        }
        Form::Partial => {
            let items: Vec<Value> = listed.objects.iter().map(|object| partial(&object.json)).collect();
            let kind = "PartialObjectMetadataList";
            json!({"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, "items": items})
                .to_string()
                .into()
        }
        Form::Table => {
            let rows = listed.objects.iter().map(|object| row(kind, &object.json, include, now)).collect();
            table(Some(columns(kind)), rows, metadata).to_string().into()
        }
    }
}

/// Objects are already encoded; a list is a matter of copying.
fn joined(head: &str, listed: &Listed) -> Bytes {
    let size: usize = listed.objects.iter().map(|object| object.json.len() + 1).sum();
    let mut out = Vec::with_capacity(head.len() + size + 2);
    out.extend_from_slice(head.as_bytes());
    for (position, object) in listed.objects.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&object.json);
    }
    out.extend_from_slice(b"]}");
    out.into()
}
