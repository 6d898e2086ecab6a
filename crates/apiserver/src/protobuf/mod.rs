//! `application/vnd.kubernetes.protobuf`: objects in upstream's binary encoding, from and to JSON.
//!
//! Objects are stored as JSON; the schema says how each field travels. A body is `k8s\0` followed by an envelope
//! that names the kind and holds the object's own bytes.

mod decode;
mod encode;
mod scalar;
pub mod wire;

use serde_json::Value;

use crate::schema::{Schema, Shape};
use wire::{Reader, Writer};

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";
/// Deeper nesting than any kind has; a hostile body must not exhaust the stack.
const DEPTH_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    NoMagic,
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("unexpected end of data")]
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

/// An object from a body, with `apiVersion` and `kind` where the envelope has them.
///
/// `expected` is the kind of the call, for envelopes that leave it out.
pub fn decode(body: &[u8], expected: (&str, &str)) -> Result<Value> {
    let (api_version, kind, raw) = open(body)?;
    let (api_version, kind) = match (api_version.is_empty(), kind.is_empty()) {
        (true, true) => (expected.0.to_owned(), expected.1.to_owned()),
        _ => (api_version, kind),
    };
    let schema = Schema::get();
    // Options belong to every group.
    let group = if kind == "DeleteOptions" { "v1" } else { &api_version };
    let Some(id) = schema.kind(group, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = decode::message(schema, id, raw, 0)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

/// The envelope's apiVersion, kind and content.
fn open(body: &[u8]) -> Result<(String, String, &[u8])> {
    let body = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
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

/// A body from an object that says what it is. `None` for kinds without a schema.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let schema = Schema::get();
    let id = schema.kind(api_version, kind)?;
    Some(envelope(api_version, kind, &encode::message(schema, id, object)))
}

/// A list from its metadata and objects that are encoded one by one, so that no list is held as JSON values.
pub fn encode_list<'a>(
    (api_version, kind): (&str, &str),
    metadata: &Value,
    objects: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<u8>> {
    const METADATA: u32 = 1;
    const ITEMS: u32 = 2;
    let schema = Schema::get();
    let item = schema.kind(api_version, kind)?;
    let list_meta = schema.field(schema.of(schema.kind(api_version, &format!("{kind}List"))?), "metadata")?;
    let Shape::Message(list_meta) = list_meta.shape else { return None };
    let mut raw = Writer::default();
    raw.bytes(METADATA, &encode::message(schema, list_meta, metadata));
    for object in objects {
        let object: Value = serde_json::from_slice(object).ok()?;
        raw.bytes(ITEMS, &encode::message(schema, item, &object));
    }
    Some(envelope(api_version, &format!("{kind}List"), &raw.finish()))
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = Writer::default();
    meta.text(1, api_version);
    meta.text(2, kind);
    let mut envelope = Writer::default();
    envelope.bytes(1, &meta.finish());
    envelope.bytes(2, raw);
    envelope.text(3, "");
    envelope.text(4, "");
    [MAGIC, &envelope.finish()].concat()
}

/// One event of a watch: a length and an envelope-less event that holds a whole body.
pub fn event(word: &str, object: &Value) -> Option<Vec<u8>> {
    let mut inner = Writer::default();
    inner.bytes(1, &encode(object)?);
    let mut event = Writer::default();
    event.text(1, word);
    event.bytes(2, &inner.finish());
    let event = event.finish();
    let length = u32::try_from(event.len()).ok()?;
    Some([length.to_be_bytes().as_slice(), &event].concat())
}

#[cfg(test)]
mod tests;
