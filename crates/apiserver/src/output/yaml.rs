//! Answers in YAML: what would have been JSON, written differently.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;

use super::status;
use crate::http::accept::Wanted;
use crate::http::body::{Body, full};
use crate::http::yaml as writer;
use crate::status::Status;

const YAML: HeaderValue = HeaderValue::from_static(writer::MEDIA_TYPE);
/// YAML takes the whole answer at once, several times over: larger ones are refused.
const MAX: usize = 4 << 20;

/// What is no JSON, and what has no end, stays as it is.
pub fn yaml(response: Response<Body>) -> Response<Body> {
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == "application/json");
    if !json || response.body().is_stream() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let body = body.gathered_within(MAX);
    let Some(bytes) = body.whole().filter(|bytes| bytes.len() <= MAX) else {
        return status(&Status::too_large_for_yaml(MAX), Wanted::Json);
    };
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Response::from_parts(head, body) };
    head.headers.insert(CONTENT_TYPE, YAML);
    Response::from_parts(head, full(writer::write(&value)))
}
