//! `node.status.volumesAttached`: changes of many volumes on one node share one write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_api::{Meta, Node, node};
use bowline_machinery::Cache;
use bowline_machinery::effect::{EffectError, Effects, Fate, Part};
use k8s_openapi::api::core::v1::AttachedVolume;
use serde_json::json;

use super::model::Report;

/// Others write to a node all the time; after this many collisions the key backs off.
const TRIES_MAX: usize = 8;

/// Volume → whether it is to be listed.
type Changes = BTreeMap<String, bool>;

/// The reports of all nodes.
#[derive(Default)]
pub(super) struct Reports(Mutex<BTreeMap<String, Arc<OneNode>>>);

#[derive(Default)]
struct OneNode {
    /// Whoever holds it writes for all that wait.
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Changes>,
    unsure: Mutex<Unsure>,
}

/// Additions whose answer was lost, and the version of the node that they were sent against.
#[derive(Default)]
struct Unsure {
    version: u64,
    volumes: BTreeSet<String>,
}

impl Reports {
    /// Whether the node lists the volume. A lost addition can land only while the node has the version it was sent
    /// against; afterwards it is in the list or refused for ever.
    pub(super) fn of(&self, object: &Node, volume: &str) -> Report {
        if node::volumes_attached(object).contains(&volume) {
            return Report::Yes;
        }
        let Some(one) = lock(&self.0).get(object.name()).cloned() else { return Report::No };
        let unsure = lock(&one.unsure);
        let may_land = unsure.version == object.version() && unsure.volumes.contains(volume);
        if may_land { Report::Unsure } else { Report::No }
    }

    /// Lists the volume, or takes it off the list. Returns when that is accepted.
    pub(super) async fn change(
        &self,
        effects: &Effects,
        nodes: &Cache<Node>,
        name: &str,
        volume: &str,
        listed: bool,
    ) -> Result<(), EffectError> {
        let one = self.one(name);
        lock(&one.waiting).insert(volume.to_owned(), listed);
        let _turn = one.turn.lock().await;
        for _ in 0..TRIES_MAX {
            match self.write(&one, effects, nodes, name, volume, listed).await {
                // Refused without effect: somebody wrote in between. Look past the cache, which may lag.
                Err(error) if error.conflict() => {
                    if let Some(fresh) = effects.get_live::<Node>("", name).await? {
                        nodes.note(fresh);
                    }
                }
                done => {
                    if nodes.named(name).is_none() {
                        self.forget(name);
                    }
                    return done;
                }
            }
        }
        Err(EffectError::refused(format!("node {name} is changed by others all the time")))
    }

    async fn write(
        &self,
        one: &OneNode,
        effects: &Effects,
        nodes: &Cache<Node>,
        name: &str,
        volume: &str,
        listed: bool,
    ) -> Result<(), EffectError> {
        let Some(object) = nodes.named(name) else {
            lock(&one.waiting).remove(volume);
            return missing(name, listed);
        };
        let mut changes = std::mem::take(&mut *lock(&one.waiting));
        if changes.remove(volume).is_none() && self.of(&object, volume) == wanted(listed) {
            // Another volume's turn has taken this change along.
            lock(&one.waiting).extend(changes);
            return Ok(());
        }
        changes.insert(volume.to_owned(), listed);
        let patch = json!({
            "metadata": {"resourceVersion": object.metadata.resource_version},
            "status": {"volumesAttached": list(&object, &changes)},
        });
        match effects.patch(Part::Status, object.as_ref(), patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.not_found() => missing(name, listed),
            Err(error) => {
                if error.fate == Fate::Unknown {
                    let added = changes.into_iter().filter(|(_, listed)| *listed).map(|(volume, _)| volume);
                    one.doubt(object.version(), added);
                }
                Err(error)
            }
        }
    }

    /// Nothing can land on a node that is gone.
    pub(super) fn forget(&self, node: &str) {
        lock(&self.0).remove(node);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    fn one(&self, node: &str) -> Arc<OneNode> {
        lock(&self.0).entry(node.to_owned()).or_default().clone()
    }
}

impl OneNode {
    fn doubt(&self, version: u64, added: impl Iterator<Item = String>) {
        let mut unsure = lock(&self.unsure);
        if unsure.version != version {
            *unsure = Unsure { version, volumes: BTreeSet::new() };
        }
        unsure.volumes.extend(added);
    }
}

fn wanted(listed: bool) -> Report {
    if listed { Report::Yes } else { Report::No }
}

/// A node that is gone lists nothing.
fn missing(name: &str, listed: bool) -> Result<(), EffectError> {
    if listed { Err(EffectError::refused(format!("node {name} is gone"))) } else { Ok(()) }
}

/// The whole list: it has no merge key. Entries of others stay as they are.
fn list(object: &Node, changes: &Changes) -> Vec<AttachedVolume> {
    let current = object.status.as_ref().and_then(|s| s.volumes_attached.clone()).unwrap_or_default();
    let kept = current.into_iter().filter(|entry| !changes.contains_key(&entry.name));
    let added = changes.iter().filter(|(_, listed)| **listed);
    let added = added.map(|(name, _)| AttachedVolume { name: name.clone(), device_path: String::new() });
    kept.chain(added).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
