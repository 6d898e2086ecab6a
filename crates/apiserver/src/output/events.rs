//! Lines of a watch stream.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::partial::{API_VERSION, metadata, partial};
use super::table::{Include, columns, row, table};
use crate::http::accept::{Encoding, Form};
use crate::protobuf;
use crate::registry::{Kind, seen};
use crate::status::Status;
use crate::store::{Event, EventKind, Stored, frame};

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
            _ => self.event(event.kind, &seen(self.kind.as_ref(), &event.object), now),
        }
    }

    pub fn event(&mut self, kind: EventKind, object: &Stored, now: Timestamp) -> Bytes {
        let content = match self.form {
            Form::Object if self.encoding == Encoding::Json => return frame(kind.word(), &object.json),
            Form::Object => serde_json::from_slice(&object.json).unwrap_or_default(),
            Form::Partial => partial(&object.json),
            Form::Table => {
                let version = metadata(&object.json)["resourceVersion"].clone();
                let rows = vec![row(self.kind.as_ref(), &object.json, self.include, now)];
                table(self.columns(), rows, json!({"resourceVersion": version}))
            }
        };
        self.framed(kind.word(), &content)
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
                let list = json!({"resourceVersion": version.to_string()});
                table(self.columns(), Vec::new(), list)
            }
        };
        self.framed("BOOKMARK", &content)
    }

    /// The end of a stream that cannot go on.
    pub fn error(&self, status: &Status) -> Bytes {
        self.framed("ERROR", &status.to_json())
    }

    fn columns(&mut self) -> Option<Value> {
        let first = !std::mem::replace(&mut self.columns_sent, true);
        first.then(|| columns(self.kind.as_ref()))
    }

    fn framed(&self, word: &str, content: &Value) -> Bytes {
        match self.encoding {
            Encoding::Json => frame(word, content.to_string().as_bytes()),
            // Whatever is watched as protobuf has a schema.
            Encoding::Protobuf => protobuf::event(word, content).unwrap_or_default().into(),
        }
    }
}
