//! Lines of a watch stream.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::partial::{API_VERSION, partial, version};
use super::table::{Include, table};
use crate::http::accept::{Encoding, Form};
use crate::protobuf;
use crate::registry::{Kind, seen};
use crate::status::Status;
use crate::store::{Event, EventKind, Keep, Stored, frame};

/// Tells a client that it has seen everything that was there when it began to watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Encodes the events of one watch.
pub struct Encoder {
    kind: Arc<dyn Kind>,
    form: Form,
    encoding: Encoding,
    include: Include,
    columns_sent: bool,
}

impl Encoder {
    pub fn new(kind: Arc<dyn Kind>, form: Form, encoding: Encoding, include: &str) -> Self {
        Self { kind, form, encoding, include: Include::parse(include), columns_sent: false }
    }

    /// An event as it happened, which all plain watchers share.
    pub fn whole(&mut self, event: &Event, now: Timestamp) -> Bytes {
        match (self.form, self.encoding) {
            (Form::Object, Encoding::Json) if self.kind.view().is_none() => event.frame.clone(),
            // Others watch too, and want the same.
            (Form::Object, Encoding::Protobuf) => {
                self.binary(event.kind, &seen(self.kind.as_ref(), &event.object), Keep::Now)
            }
            _ => self.event(event.kind, &seen(self.kind.as_ref(), &event.object), now),
        }
    }

    pub fn event(&mut self, kind: EventKind, object: &Stored, now: Timestamp) -> Bytes {
        match (self.form, self.encoding) {
            (Form::Object, Encoding::Json) => frame(kind.word(), &object.json),
            (Form::Object, Encoding::Protobuf) => self.binary(kind, object, Keep::IfAskedAgain),
            (Form::Partial, _) => {
                let mut content = Vec::new();
                partial(&object.json, &mut content);
                self.framed(kind.word(), &content)
            }
            (Form::Table, _) => {
                let metadata = format!("{{\"resourceVersion\":{}}}", version(&object.json));
                let rows = std::iter::once(object.json.as_ref());
                let first = self.first();
                let content = table(self.kind.as_ref(), first, &metadata, rows, self.include, now);
                self.framed(kind.word(), &content)
            }
        }
    }

    fn binary(&self, kind: EventKind, object: &Stored, keep: Keep) -> Bytes {
        let info = self.kind.info();
        let of = (&*info.api_version, &*info.kind);
        let content = object.binary(keep, |json| protobuf::encode_object(of, json));
        // Whatever is watched as protobuf has a schema.
        content.map(|content| protobuf::event(kind.word(), of, &content)).unwrap_or_default()
    }

    /// Says how far the stream is without naming an object.
    pub fn bookmark(&mut self, version: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
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
