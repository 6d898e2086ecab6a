//! Nodes that provisioners gave back, so that the next choice is another one.
//!
//! Only a preference: losing it with the process costs one more attempt on the same node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_api::ObjectKey;

/// Pod to node to how often; clones share it.
#[derive(Clone, Default)]
pub(super) struct Tried {
    pods: Arc<Mutex<BTreeMap<ObjectKey, BTreeMap<String, u32>>>>,
}

impl Tried {
    pub fn given_back(&self, pod: &ObjectKey, node: &str) {
        let mut pods = self.lock();
        let times = pods.entry(pod.clone()).or_default().entry(node.to_owned()).or_default();
        *times = times.saturating_add(1);
    }

    pub fn times(&self, pod: &ObjectKey, node: &str) -> u32 {
        self.lock().get(pod).and_then(|nodes| nodes.get(node)).copied().unwrap_or(0)
    }

    pub fn forget(&self, pod: &ObjectKey) {
        self.lock().remove(pod);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeMap<String, u32>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
