//! Roles that run side by side: the first that fails is remembered, and all are waited for at the end.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bowline_machinery::RunError;
use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Running roles; clones share them.
#[derive(Clone)]
pub struct Crew {
    tasks: TaskTracker,
    failure: Arc<watch::Sender<Option<Arc<RunError>>>>,
}

impl Default for Crew {
    fn default() -> Self {
        Self { tasks: TaskTracker::new(), failure: Arc::new(watch::channel(None).0) }
    }
}

impl Crew {
    /// Starts a role.
    pub fn run(&self, role: impl Future<Output = Result<(), RunError>> + Send + 'static) {
        let failure = self.failure.clone();
        self.tasks.spawn(async move {
            let ended = AssertUnwindSafe(role).catch_unwind().await;
            let ended = ended
                .unwrap_or_else(|_| Err(RunError::Refused("a role panicked; the log says where".into())));
            if let Err(error) = ended {
                failure.send_if_modified(|first| first.is_none() && first.replace(Arc::new(error)).is_none());
            }
        });
    }

    /// Resolves when a role has ended with an error.
    pub async fn failed(&self) -> Arc<RunError> {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            // The sender is ours, so this cannot fail.
            let _ = failure.changed().await;
        }
    }

    /// Waits until all roles have ended.
    pub async fn finished(&self) -> Result<(), Arc<RunError>> {
        self.tasks.close();
        self.tasks.wait().await;
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_failure_is_the_one_that_counts() {
        let crew = Crew::default();
        crew.run(async { Ok(()) });
        crew.run(async { Err(RunError::Refused("first".into())) });
        crew.run(async { Err(RunError::Refused("second".into())) });
        assert_eq!(crew.failed().await.to_string(), "first");
        assert_eq!(crew.finished().await.map_err(|e| e.to_string()), Err("first".into()));
    }
}
