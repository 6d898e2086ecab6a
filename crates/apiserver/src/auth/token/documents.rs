//! What others need to check our tokens: the issuer's configuration and its public keys.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response};

use crate::auth::access::Access;
use crate::http::body::{Body, full};
use crate::http::path::Path;

/// As long as upstream lets others keep them.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// `None` for other paths, and without tokens.
pub fn document(access: &Access, method: &Method, path: &Path) -> Option<Response<Body>> {
    let (tokens, Path::Other(path)) = (access.tokens()?, path) else { return None };
    if *method != Method::GET {
        return None;
    }
    let (content, media) = match path.as_str() {
        ".well-known/openid-configuration" => (tokens.configuration(), "application/json"),
        "openid/v1/jwks" => (tokens.key_set(), "application/jwk-set+json"),
        _ => return None,
    };
    let mut response = Response::new(full(content.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response.headers_mut().insert(CACHE_CONTROL, CACHED);
    Some(response)
}
