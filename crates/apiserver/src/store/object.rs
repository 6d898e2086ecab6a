//! An object at one version, and what happened to it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bowline_api::ObjectKey;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

pub type Labels = BTreeMap<String, String>;
pub type Fields = Vec<(&'static str, String)>;

/// One version of one object: immutable, shared by everyone who reads it.
///
/// The JSON is the truth and is encoded once; what selectors ask for is parsed on first use.
#[derive(Debug)]
pub struct Stored {
    pub key: ObjectKey,
    pub version: u64,
    pub json: Bytes,
    brief: OnceLock<Brief>,
    fields: OnceLock<Fields>,
}

/// What is asked of many objects; the rest of the JSON is skipped over.
#[derive(Debug, Default)]
struct Brief {
    labels: Labels,
    deleting: bool,
}

#[derive(Deserialize)]
struct WithMetadata {
    #[serde(default)]
    metadata: BriefMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct BriefMetadata {
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

impl Stored {
    pub fn new(key: ObjectKey, version: u64, json: Bytes) -> Self {
        Self { key, version, json, brief: OnceLock::new(), fields: OnceLock::new() }
    }

    /// A private copy to change.
    pub fn value(&self) -> Value {
        // Only what was encoded from a `Value` is ever stored, so this cannot fail.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The same content under another version.
    pub fn at_version(&self, version: u64) -> Option<Self> {
        let json = encode(self.value(), version).ok()?;
        Some(Self::new(self.key.clone(), version, json.into()))
    }

    pub fn labels(&self) -> &Labels {
        &self.brief().labels
    }

    /// Whether its end is announced.
    pub fn deleting(&self) -> bool {
        self.brief().deleting
    }

    fn brief(&self) -> &Brief {
        self.brief.get_or_init(|| {
            let parsed: Option<WithMetadata> = serde_json::from_slice(&self.json).ok();
            let metadata = parsed.map(|object| object.metadata).unwrap_or_default();
            Brief {
                labels: metadata.labels.unwrap_or_default(),
                deleting: metadata.deletion_timestamp.is_some(),
            }
        })
    }

    /// Field labels, which the rules of the kind compute once.
    pub fn fields(&self, compute: impl FnOnce(&[u8]) -> Fields) -> &Fields {
        self.fields.get_or_init(|| compute(&self.json))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// As it stands in a watch event.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One write, as watchers see it.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    pub version: u64,
    /// The new state; for a deletion the last state under the version of the deletion.
    pub object: Arc<Stored>,
    /// The state before, for selectors and for undoing.
    pub previous: Option<Arc<Stored>>,
    frame: OnceLock<Bytes>,
}

impl Event {
    pub fn new(kind: EventKind, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { kind, version: object.version, object, previous, frame: OnceLock::new() }
    }

    /// The line of a plain JSON watch, encoded once whoever watches.
    pub fn frame(&self) -> &Bytes {
        self.frame.get_or_init(|| frame(self.kind.word(), &self.object.json))
    }
}

/// The only place that sets a resourceVersion.
pub fn encode(mut value: Value, version: u64) -> Result<Vec<u8>, String> {
    value["metadata"]["resourceVersion"] = version.to_string().into();
    serde_json::to_vec(&value).map_err(|error| error.to_string())
}

/// One line of a watch stream.
pub fn frame(word: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + word.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(word.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
