//! Pods that have chosen a node and are not bound to it yet: their volumes are being made or bound.
//!
//! Without them a burst of pods would all go to one node. Only a preference: it is learnt again from the claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_api::ObjectKey;

#[derive(Default)]
pub(super) struct Assumed(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: BTreeMap<ObjectKey, String>,
    /// The pods that each node is chosen by.
    pods: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl Assumed {
    /// The node that a pod has chosen now; `None` when it has none, is bound or is gone.
    pub fn set(&self, pod: &ObjectKey, node: Option<&str>) {
        let mut state = self.lock();
        let before = match node {
            Some(node) => state.nodes.insert(pod.clone(), node.to_owned()),
            None => state.nodes.remove(pod),
        };
        if let Some(before) = before
            && let Some(pods) = state.pods.get_mut(&before)
        {
            pods.remove(pod);
            if pods.is_empty() {
                state.pods.remove(&before);
            }
        }
        if let Some(node) = node {
            state.pods.entry(node.to_owned()).or_default().insert(pod.clone());
        }
    }

    /// How many pods a node is chosen by.
    pub fn on(&self, node: &str) -> usize {
        self.lock().pods.get(node).map_or(0, BTreeSet::len)
    }

    pub fn pods(&self, node: &str) -> Vec<ObjectKey> {
        self.lock().pods.get(node).into_iter().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_counts_once() {
        let (assumed, pod) = (Assumed::default(), ObjectKey::new("n", "p"));
        assumed.set(&pod, Some("a"));
        assumed.set(&pod, Some("a"));
        assumed.set(&ObjectKey::new("n", "q"), Some("a"));
        assert_eq!((assumed.on("a"), assumed.on("b")), (2, 0));
        assumed.set(&pod, Some("b"));
        assert_eq!((assumed.on("a"), assumed.on("b")), (1, 1));
        assert_eq!(assumed.pods("b"), std::slice::from_ref(&pod));
        assumed.set(&pod, None);
        assumed.set(&pod, None);
        assert_eq!((assumed.on("a"), assumed.on("b")), (1, 0));
    }
}
