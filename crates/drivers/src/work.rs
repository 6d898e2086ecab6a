//! Operations on things, one at a time.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tonic::{Response, Status};

use crate::calls::{Calls, about};
use crate::error::{VolumeError, chain};
use crate::id::Key;
use crate::inflight::{InFlight, Watch};
use crate::metrics::Operations;

pub struct Work {
    in_flight: InFlight,
    tasks: TaskTracker,
    pub operations: Arc<Operations>,
}

impl Work {
    /// `driver` is the name that callers know and that metrics carry.
    pub fn new(driver: &'static str) -> Self {
        let operations = Arc::new(Operations::new(driver));
        Self { in_flight: InFlight::default(), tasks: TaskTracker::new(), operations }
    }

    /// The layer for every server of this driver: what it lets in ends, whatever becomes of the caller.
    pub fn calls(&self) -> Calls {
        Calls::new(self.tasks.clone(), self.operations.clone())
    }

    /// Runs one operation while nothing else touches `keys`.
    pub async fn exclusive<T>(
        &self,
        keys: Vec<Key>,
        work: impl Future<Output = Result<T, VolumeError>>,
    ) -> Result<Response<T>, Status> {
        keys.iter().for_each(about);
        let guard = self.in_flight.enter(keys)?;
        let done = work.await;
        drop(guard);
        Ok(Response::new(done.inspect_err(report)?))
    }

    /// Looks at a thing beside operations; nothing while one works on it.
    pub fn watch(&self, key: Key) -> Option<Watch> {
        self.in_flight.watch(key)
    }

    /// Waits for operations whose callers have gone.
    pub async fn settle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The answer may reach nobody, so what a person has to look at is also logged.
fn report(error: &VolumeError) {
    if error.is_ours() {
        tracing::error!(error = chain(error), "failed");
    } else {
        tracing::debug!(error = chain(error), "refused");
    }
}
