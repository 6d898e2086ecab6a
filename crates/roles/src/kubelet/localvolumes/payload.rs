//! What a volume should hold, from what is there to hold. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_api::{ConfigMap, Node, Pod, Secret, downward};
use bowline_machinery::Found;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath};

use super::plan::{ObjectKind, Source};
use super::tokens::Token;
use crate::kubelet::fs_group::fs_group;

/// A token that is given to the pod's group.
const TOKEN_MODE: u32 = 0o600;

#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub content: Vec<u8>,
    pub mode: u32,
}

// By hand: what is in a secret must not reach a log.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, mode {:o}", self.content.len(), self.mode)
    }
}

/// Files by their path in the volume.
pub type Payload = BTreeMap<String, File>;

/// Whether a volume's content can be put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    Ready(Arc<Payload>),
    /// The watch of some object has not answered yet.
    Looking,
    /// In upstream's words.
    Impossible(String),
}

/// Entries of a config map or secret.
pub type Entries = BTreeMap<String, Vec<u8>>;

pub fn entries_of_map(map: &ConfigMap) -> Entries {
    let text = map.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    text.chain(binary).collect()
}

pub fn entries_of_secret(secret: &Secret) -> Entries {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

/// Everything that sources are filled from.
pub struct World<'a> {
    pub pod: &'a Pod,
    pub node: Option<&'a Node>,
    pub objects: &'a BTreeMap<(ObjectKind, String), Found<Entries>>,
    pub tokens: &'a BTreeMap<String, Token>,
}

/// Later sources win where two have a file of the same name, as upstream does it. Everything that is missing is said at
/// once.
pub fn collect(sources: &[Source], world: &World<'_>) -> Files {
    let (mut payload, mut missing) = (Payload::new(), Vec::new());
    let mut looking = false;
    for source in sources {
        match source {
            Source::Token(wanted) => match world.tokens.get(&wanted.path) {
                Some(token) => {
                    let content = token.text.clone().into_bytes();
                    // With a group that may read it, others need not, as upstream has it.
                    let mode = if fs_group(world.pod).is_some() { TOKEN_MODE } else { bits(wanted.mode) };
                    payload.insert(wanted.path.clone(), File { content, mode });
                }
                None => looking = true,
            },
            Source::Object { kind, name, items, optional, mode } => {
                let found = world.objects.get(&(*kind, name.clone())).unwrap_or(&Found::Unknown);
                match (found, optional) {
                    (Found::Unknown, _) => looking = true,
                    (Found::Absent, true) => {}
                    (Found::Absent, false) => missing.push(format!("{} {name:?} not found", word(*kind))),
                    (Found::Present(entries), _) => {
                        match of_object(*kind, entries, items, *optional, *mode) {
                            Ok(files) => payload.extend(files),
                            Err(why) => missing.push(why),
                        }
                    }
                }
            }
            Source::Fields { items, mode } => {
                for item in items {
                    match of_field(world, item) {
                        Ok(text) => {
                            let mode = bits(item.mode.unwrap_or(*mode));
                            payload.insert(item.path.clone(), File { content: text.into_bytes(), mode });
                        }
                        Err(why) => missing.push(why),
                    }
                }
            }
        }
    }
    match missing.as_slice() {
        // What is missing may turn out to be more; it is said when all is known.
        _ if looking => Files::Looking,
        [] => Files::Ready(Arc::new(payload)),
        [one] => Files::Impossible(one.clone()),
        several => Files::Impossible(format!("[{}]", several.join(", "))),
    }
}

/// As upstream's cache of such objects names the kind.
fn word(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::ConfigMap => "configmap",
        ObjectKind::Secret => "secret",
    }
}

fn of_object(
    kind: ObjectKind,
    entries: &Entries,
    items: &[KeyToPath],
    optional: bool,
    mode: i32,
) -> Result<Payload, String> {
    if items.is_empty() {
        let file = |content: &Vec<u8>| File { content: content.clone(), mode: bits(mode) };
        return Ok(entries.iter().map(|(key, content)| (key.clone(), file(content))).collect());
    }
    let mut payload = Payload::new();
    for item in items {
        match entries.get(&item.key) {
            Some(content) => {
                let mode = bits(item.mode.unwrap_or(mode));
                payload.insert(item.path.clone(), File { content: content.clone(), mode });
            }
            None if optional => {}
            None => {
                return Err(match kind {
                    ObjectKind::ConfigMap => {
                        format!("configmap references non-existent config key: {}", item.key)
                    }
                    ObjectKind::Secret => format!("references non-existent secret key: {}", item.key),
                });
            }
        }
    }
    Ok(payload)
}

fn of_field(world: &World<'_>, item: &DownwardAPIVolumeFile) -> Result<String, String> {
    match (&item.field_ref, &item.resource_field_ref) {
        (Some(field), _) => downward::metadata_field(world.pod, &field.field_path)
            .ok_or_else(|| format!("unsupported fieldPath: {}", field.field_path)),
        (None, Some(resource)) => downward::resource(world.pod, resource, world.node),
        (None, None) => Ok(String::new()),
    }
}

/// The bits that a file can have; validation lets no others through.
fn bits(mode: i32) -> u32 {
    mode.unsigned_abs() & 0o777
}
