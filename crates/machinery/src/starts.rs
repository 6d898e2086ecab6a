//! Which roles of a process still fill their caches: until they have, it is not ready, and does not ask for its lease.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The starts of all roles of one process; clones share them.
#[derive(Clone, Default)]
pub struct Starts {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Wakes in the order of waiting, so that a simulation repeats.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Whether any role has begun: before, nothing is known about caches.
    begun: bool,
    filling: Vec<&'static str>,
    /// Whether any role has come to the end of its start: it can work.
    succeeded: bool,
}

/// A role that is starting; done when it is dropped.
pub(crate) struct Starting {
    starts: Starts,
    role: &'static str,
}

impl Starting {
    /// The role can work.
    pub(crate) fn succeeded(self) {
        self.starts.state().succeeded = true;
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let mut state = self.starts.state();
        if let Some(at) = state.filling.iter().position(|role| *role == self.role) {
            state.filling.remove(at);
        }
        drop(state);
        self.starts.inner.changed.notify_waiters();
    }
}

impl Starts {
    /// A role begins to fill its caches.
    pub(crate) fn begin(&self, role: &'static str) -> Starting {
        let mut state = self.state();
        state.begun = true;
        state.filling.push(role);
        drop(state);
        Starting { starts: self.clone(), role }
    }

    /// For `/readyz`: an error names the roles whose caches are not complete.
    pub fn complete(&self) -> Result<(), String> {
        let state = self.state();
        match (state.begun, state.filling.is_empty()) {
            (false, _) => Err("no role has begun to fill its caches".to_owned()),
            (true, true) => Ok(()),
            (true, false) => Err(format!("the caches of {} are not complete", state.filling.join(", "))),
        }
    }

    /// Waits until roles have begun to start and none is still at it.
    pub(crate) async fn completed(&self) {
        self.until(|starts| starts.complete().is_ok()).await;
    }

    /// Waits until a role can work.
    pub(crate) async fn one_succeeded(&self) {
        self.until(|starts| starts.state().succeeded).await;
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let mut woken = std::pin::pin!(self.inner.changed.notified());
            woken.as_mut().enable();
            if holds(self) {
                return;
            }
            woken.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_the_caches_of_all_its_roles_are_complete() {
        let starts = Starts::default();
        assert!(starts.complete().is_err(), "nothing has begun");
        let (first, second) = (starts.begin("binder"), starts.begin("attacher"));
        assert_eq!(starts.complete(), Err("the caches of binder, attacher are not complete".into()));
        drop(first);
        assert_eq!(starts.complete(), Err("the caches of attacher are not complete".into()));
        drop(second);
        assert_eq!(starts.complete(), Ok(()));
    }
}
