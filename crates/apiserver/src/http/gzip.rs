//! Compressed answers.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Whether the client takes gzip. As upstream, weights are not looked at, but a refusal is.
pub fn accepted(headers: &HeaderMap) -> bool {
    let all = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        named && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// For what is kept: small matters more than fast.
pub fn pack(bytes: &[u8]) -> Bytes {
    compress(bytes, Compression::default())
}

/// For what is sent once: upstream's level too.
pub fn quick(bytes: &[u8]) -> Bytes {
    compress(bytes, Compression::fast())
}

fn compress(bytes: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), level);
    // Writing to memory cannot fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map(Bytes::from).unwrap_or_default()
}

/// The content of what [`pack`] made.
pub fn unpack(packed: &[u8]) -> Bytes {
    let mut decoder = GzDecoder::new(Vec::with_capacity(packed.len() * 8));
    let written = decoder.write_all(packed).and_then(|()| decoder.finish());
    written.map(Bytes::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_it() {
        let cases = [
            ("gzip", true),
            ("gzip, deflate, br", true),
            ("br;q=1, GZIP;q=0.5", true),
            ("*", true),
            ("identity", false),
            ("gzip;q=0", false),
            ("", false),
        ];
        for (text, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(accepted(&headers), want, "{text:?}");
        }
        assert!(!accepted(&HeaderMap::new()));
    }

    #[test]
    fn there_and_back() {
        let text = "claim ".repeat(10_000);
        for packed in [pack(text.as_bytes()), quick(text.as_bytes())] {
            assert!(packed.len() < text.len() / 50, "{}", packed.len());
            assert_eq!(unpack(&packed), text);
        }
    }
}
