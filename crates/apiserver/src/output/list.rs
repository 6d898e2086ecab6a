//! Lists, made while they are sent: a large one never stands in memory as a whole.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::partial::{API_VERSION, partial};
use super::table::{self, Include};
use crate::http::accept::{Encoding, Form};
use crate::http::body::{Body, full, pieces};
use crate::protobuf;
use crate::registry::Kind;
use crate::store::{Keep, Stored, type_prefix};
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
    kind: &Arc<dyn Kind>,
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
            (false, plain(kind.as_ref(), &metadata, listed))
        }
        (Form::Object, Encoding::Json) => (false, plain(kind.as_ref(), &metadata, listed)),
        (Form::Partial, Encoding::Json) => (false, made(partials(&metadata, listed))),
        (Form::Partial, Encoding::Protobuf) => {
            let list = partials(&metadata, listed).collect::<Vec<Bytes>>().concat();
            match protobuf::encode_json(&list) {
                Some(list) => (true, full(list)),
                None => (false, full(list)),
            }
        }
        (Form::Table, _) => (false, made(rows(kind.clone(), &metadata, listed, include, now))),
    }
}

/// At once if one piece is all.
fn made(mut pieces_of: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    let first = pieces_of.next().unwrap_or_default();
    match pieces_of.next() {
        None => full(first),
        Some(second) => pieces(None, [first, second].into_iter().chain(pieces_of)),
    }
}

fn partials(metadata: &Value, listed: Listed) -> impl Iterator<Item = Bytes> + Send + 'static {
    let head = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{API_VERSION}\",\"metadata\":{metadata},\"items\":["
    );
    Joined::new(head, listed.objects, |object, out| partial(&object.json, out))
}

fn rows(
    kind: Arc<dyn Kind>,
    metadata: &Value,
    listed: Listed,
    include: Include,
    now: Timestamp,
) -> impl Iterator<Item = Bytes> + Send + 'static {
    let head = table::begin(kind.as_ref(), &metadata.to_string());
    Joined::new(head, listed.objects, move |object, out| {
        table::row(kind.as_ref(), &object.json, include, now, out);
    })
}

const END: &[u8] = b"]}\n";

/// Objects are already encoded; a list is a matter of copying.
fn plain(kind: &dyn Kind, metadata: &Value, listed: Listed) -> Body {
    let info = kind.info();
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        info.kind, info.api_version
    );
    // Objects of kinds that clients define name their type in lists as well, as upstream's do.
    let cut = match kind.structural_schema() {
        None => type_prefix(&info.api_version, &info.kind),
        Some(_) => String::new(),
    };
    let objects: usize = listed
        .objects
        .iter()
        .map(|object| item(&object.json, &cut).iter().map(|part| part.len()).sum::<usize>())
        .sum();
    let commas = listed.objects.len().saturating_sub(1);
    let size = head.len() + objects + commas + END.len();
    let joined = Joined::new(head, listed.objects, move |object, out| {
        item(&object.json, &cut).iter().for_each(|part| out.extend_from_slice(part));
    });
    if size <= PIECE {
        return full(joined.collect::<Vec<Bytes>>().concat());
    }
    pieces(Some(size), joined)
}

/// An object without its type, in two parts; whole if it does not begin with it.
fn item<'a>(json: &'a [u8], cut: &str) -> [&'a [u8]; 2] {
    match json.strip_prefix(cut.as_bytes()).filter(|_| !cut.is_empty()) {
        Some(rest) => [b"{", rest],
        None => [b"", json],
    }
}

/// The pieces of a list in JSON.
struct Joined<A> {
    /// Taken with the first piece; afterwards empty until the end.
    head: Option<String>,
    objects: std::vec::IntoIter<Arc<Stored>>,
    /// Appends what the list has of one object.
    append: A,
    first: bool,
}

impl<A: FnMut(&Stored, &mut Vec<u8>)> Joined<A> {
    fn new(head: String, objects: Vec<Arc<Stored>>, append: A) -> Self {
        Self { head: Some(head), objects: objects.into_iter(), append, first: true }
    }
}

impl<A: FnMut(&Stored, &mut Vec<u8>)> Iterator for Joined<A> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let head = self.head.take()?;
        let mut out = Vec::with_capacity(PIECE);
        out.extend_from_slice(head.as_bytes());
        for object in self.objects.by_ref() {
            if !std::mem::replace(&mut self.first, false) {
                out.push(b',');
            }
            (self.append)(&object, &mut out);
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
    Some(pieces(Some(size), list))
}
