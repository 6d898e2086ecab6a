//! `application/vnd.kubernetes.protobuf`: objects in upstream's binary encoding, from and to JSON.
//!
//! Objects are stored as JSON; the schema says how each field travels. A body is `k8s\0` followed by an envelope
//! that names the kind and holds the object's own bytes.

mod decode;
mod encode;
mod scalar;
pub mod wire;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::schema::{Schema, Shape};
use wire::{Reader, Writer};

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";
/// Deeper nesting than any kind has; a hostile body must not exhaust the stack.
const DEPTH_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    #[error("empty data")]
    NoData,
    #[error("empty body")]
    NoBody,
    #[error("unexpected EOF")]
    Truncated,
    #[error("field {field}: {why}")]
    Field { field: Box<str>, why: &'static str },
    #[error("messages are nested too deep")]
    TooDeep,
}

type Result<T> = std::result::Result<T, ProtobufError>;

/// Whether objects of this kind have a binary form.
pub fn knows(api_version: &str, kind: &str) -> bool {
    Schema::get().kind(api_version, kind).is_some()
}

/// What says what a body is, around the bytes of the object.
#[derive(Debug)]
pub struct Envelope<'b> {
    pub api_version: String,
    pub kind: String,
    raw: &'b [u8],
}

impl Envelope<'_> {
    /// The object inside, which says what it is. Nothing is read of a kind that is not known.
    pub fn object(&self) -> Result<Value> {
        let schema = Schema::get();
        // Options belong to every group.
        let group = if self.kind == "DeleteOptions" { "v1" } else { &self.api_version };
        let mut object = match schema.kind(group, &self.kind) {
            Some(id) => decode::message(schema, id, self.raw, 0)?,
            None => Map::new(),
        };
        object.insert("apiVersion".into(), self.api_version.as_str().into());
        object.insert("kind".into(), self.kind.as_str().into());
        Ok(Value::Object(object))
    }
}

/// Opens a body. `expected` is what it is where the envelope does not say it.
pub fn open<'b>(body: &'b [u8], expected: (&str, &str)) -> Result<Envelope<'b>> {
    let (api_version, kind, raw) = parts(body)?;
    let or = |given: String, expected: &str| if given.is_empty() { expected.to_owned() } else { given };
    Ok(Envelope { api_version: or(api_version, expected.0), kind: or(kind, expected.1), raw })
}

/// The envelope's apiVersion, kind and content.
fn parts(body: &[u8]) -> Result<(String, String, &[u8])> {
    if body.is_empty() {
        return Err(ProtobufError::NoData);
    }
    let body = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    if body.is_empty() {
        return Err(ProtobufError::NoBody);
    }
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Reader::new(body) {
        match field? {
            (1, value) => {
                for field in Reader::new(value.bytes()?) {
                    match field? {
                        (1, value) => api_version = value.text()?,
                        (2, value) => kind = value.text()?,
                        _ => {}
                    }
                }
            }
            (2, value) => raw = value.bytes()?,
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}

/// A body from the JSON of an object that says what it is. `None` for kinds without a schema.
pub fn encode_json(json: &[u8]) -> Option<Vec<u8>> {
    encode(&serde_json::from_slice(json).ok()?)
}

/// A body from an object that says what it is.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let schema = Schema::get();
    let id = schema.kind(api_version, kind)?;
    Some(envelope(api_version, kind, &encode::message(schema, id, object)))
}

/// The message of an object from its JSON, without the envelope.
pub fn encode_object((api_version, kind): (&str, &str), json: &[u8]) -> Option<Bytes> {
    let schema = Schema::get();
    let id = schema.kind(api_version, kind)?;
    let object: Value = serde_json::from_slice(json).ok()?;
    Some(encode::message(schema, id, &object).into())
}

/// A list of encoded objects, in pieces, and its size. `None` for kinds without a schema.
pub fn list(
    (api_version, kind): (&str, &str),
    metadata: &Value,
    items: Vec<Bytes>,
) -> Option<(usize, impl Iterator<Item = Bytes> + Send + use<>)> {
    const METADATA: u32 = 1;
    const ITEMS: u32 = 2;
    let schema = Schema::get();
    let list = format!("{kind}List");
    let list_meta = schema.field(schema.of(schema.kind(api_version, &list)?), "metadata")?;
    let Shape::Message(list_meta) = list_meta.shape else { return None };
    let mut head = Writer::default();
    head.bytes(METADATA, &encode::message(schema, list_meta, metadata));
    let head = head.finish();
    let framed: usize = items.iter().map(|item| Writer::size(ITEMS, item.len())).sum();
    let (opening, closing) = around(api_version, &list, head.len() + framed);
    let opening = [opening, head].concat();
    let size = opening.len() + framed + closing.len();
    let pieces = Pieces { opening: Some(opening), number: ITEMS, items: items.into_iter(), closing };
    Some((size, pieces))
}

/// A list while it is sent.
struct Pieces {
    opening: Option<Vec<u8>>,
    number: u32,
    items: std::vec::IntoIter<Bytes>,
    closing: Vec<u8>,
}

/// About how much is made at a time.
const PIECE: usize = 64 << 10;

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = Writer::with(self.opening.take()?);
        for item in self.items.by_ref() {
            out.bytes(self.number, &item);
            if out.len() >= PIECE {
                self.opening = Some(Vec::with_capacity(PIECE));
                return Some(out.finish().into());
            }
        }
        Some([out.finish(), std::mem::take(&mut self.closing)].concat().into())
    }
}

/// A body around the message of an object.
pub fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let (opening, closing) = around(api_version, kind, raw.len());
    [&opening, raw, &closing].concat()
}

/// What stands before and behind the content of an envelope.
fn around(api_version: &str, kind: &str, length: usize) -> (Vec<u8>, Vec<u8>) {
    let mut meta = Writer::default();
    meta.text(1, api_version);
    meta.text(2, kind);
    let mut opening = Writer::with(MAGIC.to_vec());
    opening.bytes(1, &meta.finish());
    opening.announce(2, length);
    let mut closing = Writer::default();
    closing.text(3, "");
    closing.text(4, "");
    (opening.finish(), closing.finish())
}

/// One event of a watch, of an object that is encoded: a length, the type, and a whole body.
pub fn event(word: &str, (api_version, kind): (&str, &str), object: &[u8]) -> Bytes {
    framed_event(word, &envelope(api_version, kind, object))
}

/// The same in three parts, the second of which is the object itself.
pub fn event_parts(word: &str, (api_version, kind): (&str, &str), object: Bytes) -> [Bytes; 3] {
    let (opening, closing) = around(api_version, kind, object.len());
    let head = event_head(word, opening.len() + object.len() + closing.len());
    [[head, opening].concat().into(), object, closing.into()]
}

/// The same from an object that says what it is.
pub fn event_of(word: &str, object: &Value) -> Option<Bytes> {
    Some(framed_event(word, &encode(object)?))
}

fn framed_event(word: &str, body: &[u8]) -> Bytes {
    [&event_head(word, body.len()), body].concat().into()
}

/// What stands before a body of this length.
fn event_head(word: &str, length: usize) -> Vec<u8> {
    const OBJECT: u32 = 2;
    let mut event = Writer::with(vec![0; 4]);
    event.text(1, word);
    event.announce(OBJECT, Writer::size(1, length));
    event.announce(1, length);
    let mut head = event.finish();
    let length = u32::try_from(head.len() - 4 + length).unwrap_or(u32::MAX);
    head[..4].copy_from_slice(&length.to_be_bytes());
    head
}

#[cfg(test)]
mod tests;
