//! Which kinds have been listed: what depends on an object that is not there waits for all of them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::model::Kind;

#[derive(Default)]
pub(super) struct Lists {
    state: Mutex<State>,
    /// Wakes in the order of waiting, so that a simulation repeats.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The number of the newest request for a list of every kind.
    asked: u64,
    /// The newest request that each kind was listed for; nothing before the first discovery.
    kinds: Option<BTreeMap<Arc<Kind>, Option<u64>>>,
    /// Whether a group that does not answer may have kinds of which nothing is known.
    silent: bool,
}

impl State {
    fn complete(&self) -> bool {
        let listed = |request: &Option<u64>| request.is_some_and(|request| request >= self.asked);
        !self.silent && self.kinds.as_ref().is_some_and(|kinds| kinds.values().all(listed))
    }
}

impl Lists {
    /// Whether every kind has been listed for the newest request.
    pub fn complete(&self) -> bool {
        self.state().complete()
    }

    pub async fn completed(&self) {
        self.until(State::complete).await;
    }

    /// Asks for a list of every kind.
    pub fn ask(&self) {
        self.state().asked += 1;
        self.changed.notify_waiters();
    }

    /// The number of the newest request: a list that begins now answers it.
    pub fn asked(&self) -> u64 {
        self.state().asked
    }

    pub async fn asked_after(&self, request: u64) {
        self.until(|state| state.asked > request).await;
    }

    /// These kinds are followed from now on; `silent` if a group may have others. True when that makes the lists complete.
    pub fn follow(&self, kinds: impl Iterator<Item = Arc<Kind>>, silent: bool) -> bool {
        self.change(|state| {
            state.silent = silent;
            let before = state.kinds.take().unwrap_or_default();
            let listed = |kind: Arc<Kind>| {
                let request = before.get(&kind).copied().flatten();
                (kind, request)
            };
            state.kinds = Some(kinds.map(listed).collect());
        })
    }

    /// A list of a kind that began after this request is taken in. True when that makes the lists complete.
    pub fn listed(&self, kind: &Arc<Kind>, request: u64) -> bool {
        self.change(|state| {
            if let Some(of_kind) = state.kinds.as_mut().and_then(|kinds| kinds.get_mut(kind)) {
                *of_kind = (*of_kind).max(Some(request));
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        let before = state.complete();
        change(&mut state);
        let became = !before && state.complete();
        drop(state);
        self.changed.notify_waiters();
        became
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let mut woken = pin!(self.changed.notified());
            woken.as_mut().enable();
            if holds(&self.state()) {
                return;
            }
            woken.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
