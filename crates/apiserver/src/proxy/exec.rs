//! `pods/<name>/exec`: a connection between a client and a kubelet, which this server only passes on.

use std::sync::Arc;

use form_urlencoded::Serializer;
use http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::connect::{Trust, complaint};
use super::location::{self, Endpoint};
use super::{Connection, PODS, channel, join};
use crate::auth::ResourceAttributes;
use crate::core::Core;
use crate::http::body::{self, Body};
use crate::http::query::Query;
use crate::limits::Seat;
use crate::status::Status;
use crate::verbs::Call;

/// How the older protocol agrees on what it carries.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// What belongs to the change of protocol, on the way there and back. Nothing else of the client's headers is a
/// kubelet's business.
const THERE: [HeaderName; 6] = [
    UPGRADE,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_EXTENSIONS,
    STREAM_PROTOCOL,
];
const BACK: [HeaderName; 6] = [
    UPGRADE,
    CONNECTION,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_EXTENSIONS,
    STREAM_PROTOCOL,
];
pub async fn run(
    core: &Core,
    method: &Method,
    call: &Call,
    connection: Connection<'_>,
) -> Result<Response<Body>, Status> {
    may_create(core, call)?;
    let pod = location::pod(core, call)?;
    let container = location::container(&pod, call.query.get("container"))?;
    let proxy = core.node_proxy().ok_or_else(location::unavailable)?;
    let no_host = || Status::bad_request(format!("pod {} does not have a host assigned", call.name()));
    let endpoint = location::endpoint(core, proxy, &pod)?.ok_or_else(no_host)?;
    let client = connection.upgrade.filter(|_| asks_for_upgrade(connection.headers));
    let client = client.ok_or_else(|| Status::bad_request("Upgrade request required"))?;

    let namespace = call.namespace.as_deref().unwrap_or_default();
    let path = format!("/exec/{namespace}/{}/{container}?{}", call.name(), query(&call.query));
    let request = request(method, &endpoint, &path, connection.headers)?;
    let channels = channel::handshake(connection.headers);
    match (proxy.send(&endpoint, request, Trust::Verified).await, channels) {
        (Ok(response), _) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            Ok(begin(response, client, call, connection.seat))
        }
        (Ok(response), Some(handshake)) => {
            let complaint = complaint(response).await;
            let why = format!("unable to upgrade connection: {}", complaint.trim_end());
            Ok(channel::refuse(handshake, client, &call.query, &why))
        }
        (Ok(response), None) => refusal(response).await,
        (Err(error), Some(handshake)) => {
            let url = format!("https://{}{path}", endpoint.place());
            let why = format!("error sending request: Post {url:?}: {error}");
            Ok(channel::refuse(handshake, client, &call.query, &why))
        }
        (Err(error), None) => {
            let message = format!("error dialing backend: {error}");
            Err(Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
        }
    }
}

/// To run something is to create something. A WebSocket can only begin with GET, for which the right to read was
/// asked at the gate; that alone must not be enough.
fn may_create(core: &Core, call: &Call) -> Result<(), Status> {
    let asked = ResourceAttributes {
        verb: "create".into(),
        version: call.info().version.clone().into_owned(),
        resource: PODS.plural.into(),
        subresource: call.subresource.clone().unwrap_or_default(),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name().into(),
        ..ResourceAttributes::default()
    };
    let allowed = core.access.authorizer().allows(&call.user, asked);
    if allowed { Ok(()) } else { Err(Status::forbidden(PODS, call.name(), "")) }
}

fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    let mut words = values.flat_map(|value| value.split(','));
    headers.contains_key(UPGRADE) && words.any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

fn request(
    method: &Method,
    endpoint: &Endpoint,
    path: &str,
    headers: &HeaderMap,
) -> Result<Request<Empty<bytes::Bytes>>, Status> {
    let mut request = Request::builder().method(method).uri(path).header(HOST, endpoint.place());
    request = request.header(CONNECTION, HeaderValue::from_static("Upgrade"));
    for name in THERE {
        for value in headers.get_all(&name) {
            request = request.header(&name, value);
        }
    }
    request.body(Empty::new()).map_err(Status::internal)
}

/// The kubelet has agreed; from now on the two talk to each other.
fn begin(
    mut response: Response<Incoming>,
    client: OnUpgrade,
    call: &Call,
    seat: Option<Arc<Seat>>,
) -> Response<Body> {
    let kubelet = hyper::upgrade::on(&mut response);
    let session = join::run(client, kubelet, call.closing.clone());
    tokio::spawn(async move {
        session.await;
        drop(seat);
    });
    let mut answer = Response::new(body::full(""));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for name in BACK {
        for value in response.headers().get_all(&name) {
            answer.headers_mut().append(&name, value.clone());
        }
    }
    answer
}

/// What a kubelet says is handed on as it is.
async fn refusal(response: Response<Incoming>) -> Result<Response<Body>, Status> {
    let code = response.status();
    if code.is_success() {
        let message = format!("invalid upgrade response: status code {}", code.as_u16());
        return Err(Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    let media = response.headers().get(CONTENT_TYPE).cloned();
    let mut answer = Response::new(body::full(complaint(response).await));
    *answer.status_mut() = code;
    if let Some(media) = media {
        answer.headers_mut().insert(CONTENT_TYPE, media);
    }
    Ok(answer)
}

/// As upstream asks a kubelet: sorted by name.
pub fn query(query: &Query) -> String {
    let mut pairs = Serializer::new(String::new());
    for word in query.all("command") {
        pairs.append_pair("command", word);
    }
    for (ours, theirs) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty")] {
        if query.flag(ours) {
            pairs.append_pair(theirs, "1");
        }
    }
    pairs.finish()
}
