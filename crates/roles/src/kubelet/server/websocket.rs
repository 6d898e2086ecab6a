//! The handshake that turns an HTTP request into a WebSocket, with the protocols of remote commands.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::Body;

/// Best first. The fifth can say that standard input has ended, the fourth cannot.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// From RFC 6455.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The answer that completes a handshake; or why there is none.
pub fn accept(headers: &HeaderMap) -> Result<Response<Body>, &'static str> {
    let has = |name: http::HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    if !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") {
        return Err("only WebSocket connections can be made here: SPDY is not spoken");
    }
    if !has(SEC_WEBSOCKET_VERSION, "13") {
        return Err("unsupported version of the WebSocket protocol");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let key = key.ok_or("the handshake has no Sec-WebSocket-Key")?;
    let protocol = PROTOCOLS.into_iter().find(|known| has(SEC_WEBSOCKET_PROTOCOL, known));
    let protocol = protocol.ok_or("none of the offered protocols is known: offer v5.channel.k8s.io")?;
    let proof = HeaderValue::from_str(&proof(key)).map_err(|_| "the proof of the handshake is no header")?;

    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, proof);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    Ok(response)
}

fn proof(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_of_the_standard() {
        assert_eq!(proof("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
