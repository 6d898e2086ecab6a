//! From what a verb answers to an HTTP response.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use super::partial::{partial, version};
use super::table::{Include, table};
use super::yaml::yaml;
use super::{list, scale, warning};
use crate::http::accept::{Encoding, Form, Wanted};
use crate::http::body::{Body, full, stream};
use crate::protobuf;
use crate::registry::Kind;
use crate::status::Status;
use crate::store::{Keep, Stored};
use crate::verbs::{Outcome, Reply};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROTOBUF: HeaderValue = HeaderValue::from_static(protobuf::MEDIA_TYPE);
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROTOBUF_STREAM: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");

/// `include` is the parameter `includeObject`.
pub fn reply(
    of: &Arc<dyn Kind>,
    (form, encoding): (Form, Encoding),
    include: &str,
    reply: Reply,
    now: Timestamp,
) -> Response<Body> {
    let include = Include::parse(include);
    let kind = of.as_ref();
    let (code, (media, body)) = match reply.outcome {
        Outcome::Object { code, json } => (code, whole(encoding, object(kind, form, include, json, now))),
        Outcome::Stored(object) => (StatusCode::OK, stored(kind, (form, encoding), include, &object, now)),
        Outcome::List(listed) => {
            let (binary, body) = list::body(of, (form, encoding), include, listed, now);
            (StatusCode::OK, (if binary { PROTOBUF } else { JSON }, body))
        }
        Outcome::Other { code, json } if form == Form::Table => {
            (code, whole(encoding, scale::table(json, include, now)))
        }
        Outcome::Other { code, json } => (code, whole(encoding, json)),
        Outcome::Status { code, status } => (code, whole(encoding, status.to_json().to_string().into())),
        Outcome::Watch(chunks, end) => {
            let media = if encoding == Encoding::Protobuf { PROTOBUF_STREAM } else { JSON };
            (StatusCode::OK, (media, stream(chunks).ending(end)))
        }
    };
    let mut response = response(code, body);
    response.headers_mut().insert(CONTENT_TYPE, media);
    for value in warning::headers(&reply.warnings) {
        response.headers_mut().append(WARNING, value);
    }
    response
}

/// An error.
pub fn status(status: &Status, wanted: Wanted) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = status.to_json();
    let binary = (wanted == Wanted::Protobuf).then(|| protobuf::encode(&json)).flatten();
    let (media, body) = match binary {
        _ if *status == Status::timed_out() => (TEXT, full(nameless(json))),
        Some(bytes) => (PROTOBUF, full(bytes)),
        None => (JSON, full(json.to_string())),
    };
    let mut response = response(code, body);
    response.headers_mut().insert(CONTENT_TYPE, media);
    if status.details.retry_after_seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, status.details.retry_after_seconds.into());
    }
    for value in warning::headers(&status.warnings) {
        response.headers_mut().append(WARNING, value);
    }
    if wanted == Wanted::Yaml { yaml(response) } else { response }
}

/// Upstream's timer knows neither what the client wants nor what its own answer is called.
fn nameless(mut status: Value) -> String {
    if let Some(fields) = status.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    format!("{status}\n")
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
        Encoding::Protobuf => protobuf::encode_json(&json),
    };
    match binary {
        Some(bytes) => (PROTOBUF, full(bytes)),
        None => (JSON, full(json)),
    }
}

fn stored(
    kind: &dyn Kind,
    (form, encoding): (Form, Encoding),
    include: Include,
    object: &Stored,
    now: Timestamp,
) -> (HeaderValue, Body) {
    if (form, encoding) == (Form::Object, Encoding::Protobuf) {
        let info = kind.info();
        let of = (&*info.api_version, &*info.kind);
        if let Some(content) = object.binary(Keep::IfAskedAgain, |json| protobuf::encode_object(of, json)) {
            return (PROTOBUF, full(protobuf::envelope(of.0, of.1, &content)));
        }
    }
    whole(encoding, self::object(kind, form, include, object.json.clone(), now))
}

fn object(kind: &dyn Kind, form: Form, include: Include, json: Bytes, now: Timestamp) -> Bytes {
    match form {
        Form::Object => json,
        Form::Partial => {
            let mut out = Vec::new();
            partial(&json, &mut out);
            out.into()
        }
        Form::Table => {
            let metadata = format!("{{\"resourceVersion\":{}}}", version(&json));
            table(kind, true, &metadata, std::iter::once(json.as_ref()), include, now).into()
        }
    }
}
