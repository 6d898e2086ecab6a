//! Pods that have chosen a node and are not bound to it yet: their volumes are being made or bound.
//!
//! Without them a burst of pods would all go to one node. Only a preference: it is learnt again from the claims.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_api::ObjectKey;

#[derive(Default)]
pub(in super::super) struct Assumed(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: BTreeMap<ObjectKey, String>,
    /// How many pods each node is chosen by.
    counts: BTreeMap<String, usize>,
}

impl Assumed {
    /// The node that a pod has chosen now; `None` when it has none, is bound or is gone.
    pub fn set(&self, pod: &ObjectKey, node: Option<&str>) {
        let mut state = self.lock();
        let before = match node {
            Some(node) => state.nodes.insert(pod.clone(), node.to_owned()),
            None => state.nodes.remove(pod),
        };
        if let Some(count) = before.as_ref().and_then(|before| state.counts.get_mut(before)) {
            *count -= 1;
        }
        if let Some(node) = node {
            *state.counts.entry(node.to_owned()).or_default() += 1;
        }
        state.counts.retain(|_, count| *count > 0);
    }

    pub fn on(&self, node: &str) -> usize {
        self.lock().counts.get(node).copied().unwrap_or(0)
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
        assumed.set(&pod, None);
        assumed.set(&pod, None);
        assert_eq!((assumed.on("a"), assumed.on("b")), (1, 0));
    }
}
