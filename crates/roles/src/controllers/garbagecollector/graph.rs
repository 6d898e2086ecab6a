//! Who refers to whom, as the watches tell it. Every change says whose turn it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::{Dependents, Identity, Kind, Node};

/// Objects by UID. Memory is one entry per object; a change costs as much as the object has owners, or dependents if
/// it goes or begins to wait for them.
#[derive(Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Arc<str>, Node>,
    /// UIDs of those who refer, by the UID they refer to, which may be of nobody.
    dependents: BTreeMap<String, BTreeSet<Arc<str>>>,
}

/// Whose turn it is.
pub(super) type Woken = Vec<Arc<Identity>>;

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        let all = self.dependents.get(uid).into_iter().flatten();
        all.filter_map(|dependent| self.nodes.get(dependent))
    }

    pub fn summary(&self, uid: &str) -> Dependents {
        let mut summary = Dependents::default();
        for dependent in self.dependents(uid) {
            summary.any = true;
            summary.blocking += usize::from(dependent.blocks(uid));
            summary.staying += usize::from(!dependent.deleting);
            summary.in_foreground |= dependent.in_foreground();
        }
        summary
    }

    /// Takes in an object as a watch, or the answer to a write, shows it. Older news is dropped.
    pub fn put(&mut self, node: Node) -> Woken {
        let uid = node.identity.uid.clone();
        let old = self.nodes.get(&uid);
        if old.is_some_and(|old| node.version < old.version) {
            return Woken::new();
        }
        let same = |old: &Node| {
            (old.deleting, &old.finalizers, &old.owners) == (node.deleting, &node.finalizers, &node.owners)
        };
        if old.is_some_and(same) {
            self.nodes.insert(uid, node);
            return Woken::new();
        }
        let began_to_wait = node.waits()
            && old.is_none_or(|old| {
                (old.in_foreground(), old.orphaning()) != (node.in_foreground(), node.orphaning())
            });
        let old = self.nodes.insert(uid.clone(), node.clone());
        let former = old.map(|old| old.owners).unwrap_or_default();
        former.iter().for_each(|owner| self.unlink(&owner.uid, &uid));
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let mut woken = Woken::new();
        if !node.owners.is_empty() || node.waits() {
            woken.push(node.identity.clone());
        }
        if began_to_wait {
            woken.extend(self.dependents(&uid).map(|dependent| dependent.identity.clone()));
        }
        woken.extend(former.iter().chain(&node.owners).filter_map(|owner| self.waiting(&owner.uid)));
        woken
    }

    /// An object is gone: its dependents may be next, and owners that waited for it may go.
    pub fn remove(&mut self, uid: &str) -> Woken {
        let Some(node) = self.nodes.remove(uid) else { return Woken::new() };
        node.owners.iter().for_each(|owner| self.unlink(&owner.uid, uid));
        let mut woken: Woken = self.dependents(uid).map(|dependent| dependent.identity.clone()).collect();
        woken.extend(node.owners.iter().filter_map(|owner| self.waiting(&owner.uid)));
        woken
    }

    /// What a complete list of a kind does not show is gone.
    pub fn retain(&mut self, kind: &Kind, listed: &BTreeSet<Arc<str>>) -> Woken {
        let missing = |node: &&Node| *node.identity.kind == *kind && !listed.contains(&node.identity.uid);
        let gone: Vec<Arc<str>> =
            self.nodes.values().filter(missing).map(|node| node.identity.uid.clone()).collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// A deletion of ours left nothing behind; the watch will say so. Until then the object is as good as gone.
    pub fn deleted(&mut self, uid: &str) {
        if let Some(node) = self.nodes.get_mut(uid) {
            node.deleting = true;
            node.finalizers.clear();
        }
    }

    /// All that are kept for the garbage collector to let them go.
    pub fn waiting_all(&self) -> Woken {
        self.nodes.values().filter(|node| node.waits()).map(|node| node.identity.clone()).collect()
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(all) = self.dependents.get_mut(owner) {
            all.remove(dependent);
            if all.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn waiting(&self, uid: &str) -> Option<Arc<Identity>> {
        self.get(uid).filter(|owner| owner.waits()).map(|owner| owner.identity.clone())
    }

    #[cfg(test)]
    pub fn len(&self) -> (usize, usize) {
        (self.nodes.len(), self.dependents.len())
    }
}
