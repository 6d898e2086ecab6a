//! Entity tags: what a client has already is not sent again.

use http::header::{HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Response, StatusCode};
use sha2::{Digest as _, Sha512};

use super::body::{Body, full};

/// A hash of the content in hexadecimal digits, upper case as upstream's.
pub fn hash(content: &[u8]) -> String {
    let digest = Sha512::digest(content);
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The value of the header `ETag`.
pub fn quoted(hash: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the client says that it has the content of this hash.
pub fn is_known(headers: &HeaderMap, hash: &str) -> bool {
    let sent = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    sent.flat_map(|value| value.split(',')).any(|tag| {
        let tag = tag.trim().trim_start_matches("W/");
        tag == "*" || tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) == Some(hash)
    })
}

pub fn not_modified() -> Response<Body> {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let cases = [
            ("\"AB\"", true),
            ("W/\"AB\"", true),
            ("\"CD\", \"AB\"", true),
            ("*", true),
            ("AB", false),
            ("\"AC\"", false),
        ];
        for (text, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, text.parse().unwrap());
            assert_eq!(is_known(&headers, "AB"), want, "{text:?}");
        }
        assert!(!is_known(&HeaderMap::new(), "AB"));
        assert!(hash(b"").starts_with("CF83E1357EEFB8BD"));
    }
}
