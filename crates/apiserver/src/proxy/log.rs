//! `pods/<name>/log`: asked of the kubelet, and handed on as it comes.

use bytes::Bytes;
use form_urlencoded::Serializer;
use futures::StreamExt;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use jiff::Timestamp;

use super::connect::{Trust, complaint};
use super::location;
use crate::core::Core;
use crate::field::Invalid;
use crate::go_time;
use crate::golang::{parse_fault, quoted};
use crate::http::body::{self, Body};
use crate::http::query::Query;
use crate::status::Status;
use crate::verbs::Call;

pub async fn run(core: &Core, call: &Call) -> Result<Response<Body>, Status> {
    let options = Options::parse(&call.query)?;
    let errors = options.errors();
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", call.name(), &errors));
    }
    let pod = location::pod(core, call)?;
    let container = location::container(&pod, call.query.get("container"))?;
    let proxy = core.node_proxy().ok_or_else(location::unavailable)?;
    let Some(endpoint) = location::endpoint(core, proxy, &pod)? else {
        // Nobody runs the pod, so it has nothing to say.
        let mut empty = Response::new(body::full(Bytes::new()));
        *empty.status_mut() = StatusCode::NO_CONTENT;
        return Ok(empty);
    };
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let mut path = format!("/containerLogs/{namespace}/{}/{container}", call.name());
    let query = options.query();
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    let place = endpoint.place();
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("Get \"https://{place}{path}\": {error}");
        Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    };
    let request = Request::get(&path).header(http::header::HOST, &place).body(Empty::new());
    let request = request.map_err(|error| failed(&error))?;
    let response = proxy.send(&endpoint, request, options.trust).await.map_err(|error| failed(&error))?;
    if !(200..=206).contains(&response.status().as_u16()) {
        return Err(refusal(response, call.name()).await);
    }
    Ok(stream(response, call))
}

fn stream(response: Response<Incoming>, call: &Call) -> Response<Body> {
    let incoming = response.into_body();
    let closing = call.closing.clone().cancelled_owned();
    // A kubelet that breaks off in the middle ends the log; there is no other way to say so.
    let chunks = incoming.into_data_stream().take_while(|chunk| std::future::ready(chunk.is_ok()));
    let chunks = chunks.filter_map(|chunk| std::future::ready(chunk.ok())).take_until(closing);
    let mut answer = Response::new(body::stream(chunks));
    // Whatever the kubelet calls it, as upstream does.
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

async fn refusal(response: Response<Incoming>, pod: &str) -> Status {
    let code = response.status();
    complained(code, &complaint(response).await, pod)
}

/// A kubelet's refusal in upstream's words, which keep some texts and drop others.
pub fn complained(code: StatusCode, complaint: &str, pod: &str) -> Status {
    let about = |reason: &'static str, message: &str| {
        let mut status = Status::new(code, reason, format!("{message} ( pods/log {pod})"));
        status.details.name = pod.into();
        status.details.kind = "pods/log".into();
        status
    };
    match code.as_u16() {
        400 => Status::bad_request(complaint),
        401 => about("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => about("Forbidden", complaint),
        404 => about("NotFound", "the server could not find the requested resource"),
        409 => about("Conflict", "the server reported a conflict"),
        422 => about("Invalid", "the server rejected our request due to an error in our request"),
        500 => Status::internal(complaint),
        503 => about("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => about(
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        501.. => about(
            "InternalError",
            &format!("an error on the server ({complaint:?}) has prevented the request from succeeding"),
        ),
        other => about(
            "",
            &format!("the server responded with the status code {other} but did not return more information"),
        ),
    }
}

/// PodLogOptions, but for the container.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
    /// Which kubelet is believed; not the kubelet's business.
    pub(super) trust: Trust,
}

impl Options {
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let number = |name: &str| match query.has(name).then(|| query.get(name)) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error| {
                let why = parse_fault(&error);
                Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
            }),
        };
        let since_time = match query.get("sinceTime") {
            "" | "null" => None,
            text => Some(go_time::parse(text).map_err(Status::bad_request)?),
        };
        Ok(Self {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since_seconds: number("sinceSeconds")?,
            since_time,
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
            trust: if query.flag("insecureSkipTLSVerifyBackend") { Trust::Anybody } else { Trust::Verified },
            stream: query.has("stream").then(|| query.get("stream").to_owned()),
        })
    }

    pub fn errors(&self) -> Vec<Invalid> {
        let mut errors = Vec::new();
        let mut at_least = |name: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(Invalid::invalid(name, value, why));
            }
        };
        at_least("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        at_least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        match (self.since_seconds, self.since_time) {
            (Some(_), Some(_)) => {
                const WHY: &str = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.push(Invalid::forbidden("[]", WHY));
            }
            (seconds, _) => {
                if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
                    errors.push(Invalid::invalid("sinceSeconds", seconds, "must be greater than 0"));
                }
            }
        }
        // Upstream has this behind a gate that is off.
        if self.stream.is_some() {
            errors.push(Invalid::forbidden("stream", "may not be specified"));
        }
        errors
    }

    /// As upstream asks a kubelet: sorted by name, times in whole seconds.
    pub fn query(&self) -> String {
        let mut pairs = Serializer::new(String::new());
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                pairs.append_pair(name, &value);
            }
        };
        let yes = |flag: bool| flag.then(|| "true".to_owned());
        let number = |value: Option<i64>| value.map(|value| value.to_string());
        add("follow", yes(self.follow));
        add("limitBytes", number(self.limit_bytes));
        add("previous", yes(self.previous));
        add("sinceSeconds", number(self.since_seconds));
        add("sinceTime", self.since_time.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
        add("tailLines", number(self.tail_lines));
        add("timestamps", yes(self.timestamps));
        pairs.finish()
    }
}
