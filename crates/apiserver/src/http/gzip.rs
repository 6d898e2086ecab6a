//! Compressed answers.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// About how much is handed on at a time.
const PACKED: usize = 16 << 10;

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
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::default());
    // Writing to memory cannot fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map(Bytes::from).unwrap_or_default()
}

/// For what is sent once, piece by piece: upstream's level too.
pub struct Packer<I> {
    pieces: I,
    /// Nothing once all is done.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Bytes>> Packer<I> {
    pub fn new(pieces: I) -> Self {
        Self { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Packer<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(piece) = self.pieces.next() else {
                // Writing to memory cannot fail.
                return self.encoder.take()?.finish().ok().map(Bytes::from);
            };
            let encoder = self.encoder.as_mut()?;
            encoder.write_all(&piece).ok()?;
            if encoder.get_ref().len() >= PACKED {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
    }
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
        let pieces = text.as_bytes().chunks(7000).map(Bytes::copy_from_slice);
        let piecewise: Vec<Bytes> = Packer::new(pieces).collect();
        for packed in [pack(text.as_bytes()), piecewise.concat().into()] {
            assert!(packed.len() < text.len() / 50, "{}", packed.len());
            assert_eq!(unpack(&packed), text);
        }
    }
}
