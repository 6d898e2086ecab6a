//! Which pods may have containers on this node: the word between whoever starts containers and whoever unmounts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_machinery::listeners::Listeners;
use tokio_util::sync::CancellationToken;

/// Filled by `pods`, read by `volumemanager` and `localvolumes`; clones share it.
///
/// A pod enters before it is asked whether its volumes are ready, and leaves when no container of it runs and none
/// will start again. As both sides read pods from the same cache, a pod that was seen ending before it entered is
/// also seen ending afterwards: no container starts on a volume that is being taken away.
#[derive(Clone, Default)]
pub struct Tenants {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    listeners: Listeners<str>,
    /// Cancelled when everybody has to go.
    evicting: CancellationToken,
}

#[derive(Default)]
struct State {
    inside: BTreeSet<String>,
    /// Containers that an earlier process left are all entered: who is not inside now has none.
    counted: bool,
}

impl Tenants {
    pub fn enter(&self, pod_uid: &str) {
        if self.state().inside.insert(pod_uid.into()) {
            self.changed(pod_uid);
        }
    }

    pub fn leave(&self, pod_uid: &str) {
        if self.state().inside.remove(pod_uid) {
            self.changed(pod_uid);
        }
    }

    pub fn inside(&self, pod_uid: &str) -> bool {
        self.state().inside.contains(pod_uid)
    }

    pub fn all(&self) -> Vec<String> {
        self.state().inside.iter().cloned().collect()
    }

    /// The containers of an earlier process are known.
    pub fn set_counted(&self) {
        self.state().counted = true;
        self.changed("");
    }

    pub fn counted(&self) -> bool {
        self.state().counted
    }

    /// Everybody has to go, and nobody new may come: the machine is to be left clean.
    pub fn evict(&self) {
        self.inner.evicting.cancel();
        self.changed("");
    }

    pub fn evicting(&self) -> bool {
        self.inner.evicting.is_cancelled()
    }

    /// Completes when everybody has to go.
    pub async fn evicted(&self) {
        self.inner.evicting.cancelled().await;
    }

    /// Calls `handler` with the pod that came or went; with an empty UID when all are concerned.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.listeners.add(handler);
    }

    fn changed(&self, pod_uid: &str) {
        self.inner.listeners.tell(pod_uid);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
