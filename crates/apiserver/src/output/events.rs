//! Lines of a watch stream.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::gather::{Gather, SMALL};
use super::partial::{API_VERSION, partial, version};
use super::shared::SharedFrames;
use super::table::{Include, table};
use crate::http::accept::{Encoding, Form};
use crate::protobuf;
use crate::registry::{Kind, seen};
use crate::status::Status;
use crate::store::{CLOSING, Event, EventKind, Keep, Stored, frame, opening};

/// Tells a client that it has seen everything that was there when it began to watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Encodes the events of one watch.
pub struct Encoder {
    kind: Arc<dyn Kind>,
    form: Form,
    encoding: Encoding,
    include: Include,
    columns_sent: bool,
    shared: Arc<SharedFrames>,
}

impl Encoder {
    pub fn new(
        kind: Arc<dyn Kind>,
        (form, encoding): (Form, Encoding),
        include: &str,
        shared: Arc<SharedFrames>,
    ) -> Self {
        Self { kind, form, encoding, include: Include::parse(include), columns_sent: false, shared }
    }

    /// An event as it happened, which all plain watchers share.
    pub fn whole(&mut self, event: &Event, now: Timestamp, out: &mut Gather) {
        match (self.form, self.encoding) {
            (Form::Object, Encoding::Json) if self.kind.view().is_none() => out.push(event.frame.clone()),
            // Others watch too, and want the same.
            (Form::Object, Encoding::Protobuf) => {
                self.binary(event.kind, &seen(self.kind.as_ref(), &event.object), Keep::Now, out);
            }
            _ => self.event(event.kind, &seen(self.kind.as_ref(), &event.object), now, out),
        }
    }

    pub fn event(&mut self, kind: EventKind, object: &Stored, now: Timestamp, out: &mut Gather) {
        let content = match (self.form, self.encoding) {
            (Form::Object, Encoding::Json) if object.json.len() > SMALL => {
                out.push(opening(kind.word()).into());
                out.push(object.json.clone());
                return out.push(Bytes::from_static(CLOSING));
            }
            (Form::Object, Encoding::Json) => return out.push(frame(kind.word(), &object.json)),
            (Form::Object, Encoding::Protobuf) => {
                // A large one is kept for the next watcher rather than made again.
                let keep = if object.json.len() > SMALL { Keep::Now } else { Keep::IfAskedAgain };
                return self.binary(kind, object, keep, out);
            }
            (Form::Partial, _) => {
                let mut content = Vec::new();
                partial(&object.json, &mut content);
                content
            }
            (Form::Table, _) => {
                let metadata = format!("{{\"resourceVersion\":{}}}", version(&object.json));
                let rows = std::iter::once(object.json.as_ref());
                let first = self.first();
                table(self.kind.as_ref(), first, &metadata, rows, self.include, now)
            }
        };
        let framed = self.framed(kind.word(), &content);
        out.push(if framed.len() > SMALL { self.shared.share(framed) } else { framed });
    }

    fn binary(&self, kind: EventKind, object: &Stored, keep: Keep, out: &mut Gather) {
        let info = self.kind.info();
        let of = (&*info.api_version, &*info.kind);
        // Whatever is watched as protobuf has a schema.
        let Some(content) = object.binary(keep, |json| protobuf::encode_object(of, json)) else { return };
        if content.len() > SMALL {
            protobuf::event_parts(kind.word(), of, content).into_iter().for_each(|part| out.push(part));
        } else {
            out.push(protobuf::event(kind.word(), of, &content));
        }
    }

    /// Says how far the stream is without naming an object.
    pub fn bookmark(&mut self, version: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let info = self.kind.info();
        let content = match self.form {
            Form::Object => json!({"kind": info.kind, "apiVersion": info.api_version, "metadata": metadata}),
            Form::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": API_VERSION, "metadata": metadata})
            }
            Form::Table => {
                let metadata = json!({"resourceVersion": version.to_string()}).to_string();
                let (rows, now) = (std::iter::empty(), Timestamp::UNIX_EPOCH);
                let first = self.first();
                let content = table(self.kind.as_ref(), first, &metadata, rows, self.include, now);
                return self.framed("BOOKMARK", &content);
            }
        };
        self.framed("BOOKMARK", content.to_string().as_bytes())
    }

    /// The end of a stream that cannot go on.
    pub fn error(&self, status: &Status) -> Bytes {
        self.framed("ERROR", status.to_json().to_string().as_bytes())
    }

    /// Whether nothing was sent before.
    fn first(&mut self) -> bool {
        !std::mem::replace(&mut self.columns_sent, true)
    }

    fn framed(&self, word: &str, content: &[u8]) -> Bytes {
        match self.encoding {
            Encoding::Json => frame(word, content),
            Encoding::Protobuf => {
                let content: Value = serde_json::from_slice(content).unwrap_or_default();
                protobuf::event_of(word, &content).unwrap_or_default()
            }
        }
    }
}
