//! Answers in YAML: what would have been JSON, written differently.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;

use crate::http::body::{Body, full};
use crate::http::yaml as writer;

const YAML: HeaderValue = HeaderValue::from_static(writer::MEDIA_TYPE);

/// What is no JSON, and what has no end, stays as it is.
pub fn yaml(response: Response<Body>) -> Response<Body> {
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == "application/json");
    if !json || response.body().is_stream() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let body = body.gathered();
    let value = body.whole().and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let Some(value) = value else { return Response::from_parts(head, body) };
    head.headers.insert(CONTENT_TYPE, YAML);
    Response::from_parts(head, full(writer::write(&value)))
}
