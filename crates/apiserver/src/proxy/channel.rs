//! How a session that cannot begin is refused: its WebSocket is opened all the same and says why on the last
//! channel, as upstream's server does. Otherwise kubectl would try again with the older protocol.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::json;

use super::join;
use crate::http::body::{self, Body};
use crate::http::query::Query;

/// The one protocol that upstream's server speaks itself; sessions of others are the kubelet's alone.
const PROTOCOL: &str = "v5.channel.k8s.io";
/// From RFC 6455.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const NORMAL: u16 = 1000;

/// What a client is answered that asked for a WebSocket in words that this server can read.
pub struct Handshake(pub(super) HeaderValue);

pub fn handshake(headers: &HeaderMap) -> Option<Handshake> {
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    let asked = has(UPGRADE, "websocket") && has(SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asked && has(SEC_WEBSOCKET_PROTOCOL, PROTOCOL))?;
    let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID.as_bytes()].concat());
    HeaderValue::from_str(&STANDARD.encode(proof)).ok().map(Handshake)
}

/// Opens the client's WebSocket, says why there is no session, and closes it.
pub fn refuse(handshake: Handshake, client: OnUpgrade, query: &Query, why: &str) -> Response<Body> {
    tokio::spawn(join::tell(client, frames(query, why)));
    let mut answer = Response::new(body::full(""));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, handshake.0);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    answer
}

/// Nothing on the lowest channel, which says that the connection stands; the failure; the end.
pub fn frames(query: &Query, why: &str) -> Vec<u8> {
    let lowest = match (query.flag("stdout"), query.flag("stderr")) {
        (true, _) => STDOUT,
        (false, true) => STDERR,
        (false, false) => ERROR,
    };
    let status = json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {why}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    });
    let failure = [&[ERROR], status.to_string().as_bytes()].concat();
    [frame(BINARY, &[lowest]), frame(BINARY, &failure), frame(CLOSE, &NORMAL.to_be_bytes())].concat()
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short), _) if short < 126 => vec![short],
        (_, Ok(medium)) => [&[126], medium.to_be_bytes().as_slice()].concat(),
        _ => [&[127], (payload.len() as u64).to_be_bytes().as_slice()].concat(),
    };
    [&[first], length.as_slice(), payload].concat()
}
