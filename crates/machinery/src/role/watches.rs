//! What a role watches: each cache must be complete before work begins, and a change in it wakes keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, join_all};

use super::Role;
use crate::cache::{Cache, Change};
use crate::client::Object;
use crate::queue::Queue;

/// Collects what a role watches.
pub struct Watches<R: Role> {
    role: Weak<R>,
    queue: Queue<R::Key>,
    complete: Vec<BoxFuture<'static, ()>>,
    fresh: Vec<BoxFuture<'static, ()>>,
}

impl<R: Role> Watches<R> {
    pub(super) fn new(role: &Arc<R>, queue: &Queue<R::Key>) -> Self {
        // Caches may outlive the role: their handlers must not keep it.
        Self { role: Arc::downgrade(role), queue: queue.clone(), complete: Vec::new(), fresh: Vec::new() }
    }

    /// Calls `keys` with each object there is and each later change; it adds the keys that are concerned.
    pub fn on<K: Object>(
        &mut self,
        cache: &Cache<K>,
        keys: impl Fn(&R, &Change<K>, &Queue<R::Key>) + Send + Sync + 'static,
    ) -> &mut Self {
        let (role, queue) = (self.role.clone(), self.queue.clone());
        let lives = self.role.clone();
        let wake = move |change: &Change<K>| {
            let Some(role) = role.upgrade() else { return };
            // The cache is shared: a bug in one role's handler must not end the watch for all.
            if catch_unwind(AssertUnwindSafe(|| keys(&role, change, &queue))).is_err() {
                tracing::error!(role = R::NAME, kind = %K::kind(&()), "panicked on a change, which is lost");
            }
        };
        cache.on_change_while(move || lives.strong_count() > 0, wake);
        self.read(cache)
    }

    /// A cache that is only read: work waits for it, changes wake nothing.
    pub fn read<K: Object>(&mut self, cache: &Cache<K>) -> &mut Self {
        let (complete, fresh) = (cache.clone(), cache.clone());
        self.complete.push(Box::pin(async move { complete.synced().await }));
        self.fresh.push(Box::pin(async move { fresh.refreshed().await }));
        self
    }

    /// What is no cache: a process that begins to lead waits until this has brought it up to date with the store.
    pub fn fresh(&mut self, fresh: impl Future<Output = ()> + Send + 'static) -> &mut Self {
        self.fresh.push(Box::pin(fresh));
        self
    }

    /// The role itself, for handlers of what is no cache.
    pub fn role(&self) -> Weak<R> {
        self.role.clone()
    }

    /// Waits until every cache is complete.
    pub(super) async fn synced(&mut self) {
        for complete in self.complete.drain(..) {
            complete.await;
        }
    }

    /// Waits until every cache holds what the store has now.
    pub(super) async fn refreshed(self) {
        join_all(self.fresh).await;
    }
}
