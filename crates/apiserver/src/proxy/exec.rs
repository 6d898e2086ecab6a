//! `pods/<name>/exec`: a connection between a client and a kubelet, which this server only passes on.

use form_urlencoded::Serializer;
use http::header::{
    CONNECTION, HOST, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use super::{Connection, location};
use crate::core::Core;
use crate::http::body::{self, Body};
use crate::http::query::Query;
use crate::status::Status;
use crate::verbs::Call;

/// What belongs to the handshake of a WebSocket, on the way there and back.
const THERE: [HeaderName; 4] =
    [SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_EXTENSIONS];
const BACK: [HeaderName; 5] =
    [UPGRADE, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_EXTENSIONS];
/// What a kubelet may say about a failure.
const COMPLAINT_MAX: usize = 64 << 10;

pub async fn run(core: &Core, call: &Call, connection: Connection<'_>) -> Result<Response<Body>, Status> {
    let pod = location::pod(core, call)?;
    let container = location::container(&pod, call.query.get("container"))?;
    let proxy = core.node_proxy().ok_or_else(location::unavailable)?;
    let no_host = || Status::bad_request(format!("pod {} does not have a host assigned", call.name()));
    let endpoint = location::endpoint(core, proxy, &pod)?.ok_or_else(no_host)?;
    let wanted = connection.headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let client = match connection.upgrade.filter(|_| wanted.eq_ignore_ascii_case("websocket")) {
        Some(client) => client,
        None if wanted.is_empty() => return Err(Status::bad_request("Upgrade request required")),
        None => {
            let why = format!("unable to upgrade: unsupported protocol {wanted:?}, use a WebSocket");
            return Err(Status::bad_request(why));
        }
    };

    let namespace = call.namespace.as_deref().unwrap_or_default();
    let path = format!("/exec/{namespace}/{}/{container}?{}", call.name(), query(&call.query));
    let mut request = Request::get(path)
        .header(HOST, format!("{}:{}", endpoint.host, endpoint.port))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket");
    for name in THERE {
        for value in connection.headers.get_all(&name) {
            request = request.header(&name, value);
        }
    }
    let request = request.body(Empty::new()).map_err(Status::internal)?;
    let failed = |error: std::io::Error| {
        let place = format!("{}:{}", endpoint.host, endpoint.port);
        Status::internal(format!("error dialing backend: {place}: {error}"))
    };
    let mut response = proxy.send(endpoint.parts(), request).await.map_err(failed)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let complaint = Limited::new(response.into_body(), COMPLAINT_MAX).collect().await;
        let complaint = complaint.map(|body| body.to_bytes()).unwrap_or_default();
        let complaint = String::from_utf8_lossy(&complaint);
        return Err(Status::internal(format!("unable to upgrade connection: {}", complaint.trim_end())));
    }
    let kubelet = hyper::upgrade::on(&mut response);
    tokio::spawn(join(client, kubelet, call.closing.clone()));
    let mut answer = Response::new(body::full(""));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for name in BACK {
        for value in response.headers().get_all(&name) {
            answer.headers_mut().append(&name, value.clone());
        }
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

/// Passes bytes on in both directions until either side has ended.
async fn join(client: OnUpgrade, kubelet: OnUpgrade, closing: CancellationToken) {
    let (client, kubelet) = match tokio::try_join!(client, kubelet) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "a session did not begin"),
    };
    let passed = tokio::select! {
        biased;
        () = closing.cancelled() => return,
        passed = pass(client, kubelet) => passed,
    };
    if let Err(error) = passed {
        tracing::debug!(%error, "a session broke off");
    }
}

async fn pass(client: Upgraded, kubelet: Upgraded) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_kubelet, mut to_kubelet) = tokio::io::split(TokioIo::new(kubelet));
    let passed = tokio::select! {
        passed = tokio::io::copy(&mut from_client, &mut to_kubelet) => passed,
        passed = tokio::io::copy(&mut from_kubelet, &mut to_client) => passed,
    };
    // Whatever was passed on is on its way; the other side hears that this is the end.
    let (_, _) = tokio::join!(to_client.shutdown(), to_kubelet.shutdown());
    passed.map(drop)
}
