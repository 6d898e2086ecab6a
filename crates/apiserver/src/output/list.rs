//! Lists, made while they are sent: a large one never stands in memory as a whole.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::partial::{API_VERSION, partial};
use super::table::{Include, table};
use crate::http::accept::{Encoding, Form};
use crate::http::body::{Body, full, pieces};
use crate::protobuf;
use crate::registry::Kind;
use crate::store::{Keep, Stored};
use crate::verbs::Listed;

/// About how much is made at a time: what fits into a few frames of HTTP/2.
const PIECE: usize = 64 << 10;

pub fn metadata(listed: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": listed.version.to_string()});
    if !listed.continue_.is_empty() {
        metadata["continue"] = listed.continue_.as_str().into();
    }
    if let Some(remaining) = listed.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// A list in the wanted form; `true` if it is protobuf.
pub fn body(
    kind: &dyn Kind,
    (form, encoding): (Form, Encoding),
    include: Include,
    listed: Listed,
    now: Timestamp,
) -> (bool, Body) {
    let metadata = metadata(&listed);
    let info = kind.info();
    match (form, encoding) {
        (Form::Object, Encoding::Protobuf) => {
            if let Some(body) = binary((&info.api_version, &info.kind), &metadata, &listed) {
                return (true, body);
            }
            (false, plain(kind, &metadata, listed))
        }
        (Form::Object, Encoding::Json) => (false, plain(kind, &metadata, listed)),
        (Form::Partial, _) => {
            let list = partials(&metadata, &listed);
            match encoding {
                Encoding::Json => (false, full(list)),
                Encoding::Protobuf => match protobuf::encode_json(&list) {
                    Some(list) => (true, full(list)),
                    None => (false, full(list)),
                },
            }
        }
        (Form::Table, _) => {
            let rows = listed.objects.iter().map(|object| object.json.as_ref());
            let mut out = table(kind, true, &metadata.to_string(), rows, include, now);
            out.push(b'\n');
            (false, full(out))
        }
    }
}

fn partials(metadata: &Value, listed: &Listed) -> Vec<u8> {
    let mut out = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{API_VERSION}\",\"metadata\":{metadata},\"items\":["
    )
    .into_bytes();
    for (position, object) in listed.objects.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        partial(&object.json, &mut out);
    }
    out.extend_from_slice(END);
    out
}

const END: &[u8] = b"]}\n";

/// Objects are already encoded; a list is a matter of copying.
fn plain(kind: &dyn Kind, metadata: &Value, listed: Listed) -> Body {
    let info = kind.info();
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        info.kind, info.api_version
    );
    let objects: usize = listed.objects.iter().map(|object| object.json.len()).sum();
    let commas = listed.objects.len().saturating_sub(1);
    let size = head.len() + objects + commas + END.len();
    let joined = Joined { head: Some(head), objects: listed.objects.into_iter(), first: true };
    if size <= PIECE {
        return full(joined.collect::<Vec<Bytes>>().concat());
    }
    pieces(size, joined)
}

/// The pieces of a list in JSON.
struct Joined {
    /// Taken with the first piece; afterwards empty until the end.
    head: Option<String>,
    objects: std::vec::IntoIter<Arc<Stored>>,
    first: bool,
}

impl Iterator for Joined {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let head = self.head.take()?;
        let mut out = Vec::with_capacity(PIECE);
        out.extend_from_slice(head.as_bytes());
        for object in self.objects.by_ref() {
            if !std::mem::replace(&mut self.first, false) {
                out.push(b',');
            }
            out.extend_from_slice(&object.json);
            if out.len() >= PIECE {
                self.head = Some(String::new());
                return Some(out.into());
            }
        }
        out.extend_from_slice(END);
        Some(out.into())
    }
}

/// `None` for kinds without a binary form.
fn binary(of: (&str, &str), metadata: &Value, listed: &Listed) -> Option<Body> {
    let encode = |json: &[u8]| protobuf::encode_object(of, json);
    let encoded = listed.objects.iter().map(|object| object.binary(Keep::IfAskedAgain, encode));
    let items: Vec<Bytes> = encoded.collect::<Option<_>>()?;
    let (size, list) = protobuf::list(of, metadata, items)?;
    Some(pieces(size, list))
}
