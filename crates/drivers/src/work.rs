//! Operations that end, whatever becomes of their callers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tonic::{Response, Status};
use tracing::Instrument;

use crate::calls::{Calls, about};
use crate::error::{VolumeError, chain};
use crate::id::Key;
use crate::inflight::{Guard, InFlight, Watch};
use crate::metrics::Operations;

pub struct Work {
    in_flight: InFlight,
    tasks: TaskTracker,
    pub operations: Arc<Operations>,
}

impl Work {
    /// `driver` is the name that callers know and that metrics carry. What is `barred` is never worked on, for the
    /// reason given.
    pub fn new(driver: &'static str, barred: BTreeMap<Key, String>) -> Self {
        let operations = Arc::new(Operations::new(driver));
        Self { in_flight: InFlight::barring(barred), tasks: TaskTracker::new(), operations }
    }

    /// The layer for every server of this driver: spans and metrics.
    pub fn calls(&self) -> Calls {
        Calls::new(self.tasks.clone(), self.operations.clone())
    }

    /// Runs one operation to its end while nothing else touches `keys`, in the span of the call.
    ///
    /// The server drops a handler when its client resets the stream or runs out of time. A mount half done and a
    /// free guard would follow, so the work and the guard live in a task of their own.
    pub async fn exclusive<T: Send + 'static>(
        &self,
        keys: Vec<Key>,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.sharing(keys, Vec::new(), work).await
    }

    /// The same, with things that others may share meanwhile.
    pub async fn sharing<T: Send + 'static>(
        &self,
        alone: Vec<Key>,
        shared: Vec<Key>,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        alone.iter().for_each(about);
        let guard = self.in_flight.enter(alone, shared)?;
        self.finish(guard, work).await
    }

    /// Runs one operation that takes a volume from a workload. It works from the mount table, so it is done for a
    /// volume in quarantine, too: a pod whose volume has lost its record must be able to end.
    pub async fn teardown<T: Send + 'static>(
        &self,
        key: Key,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        about(&key);
        let guard = self.in_flight.enter_teardown(key)?;
        self.finish(guard, work).await
    }

    async fn finish<T: Send + 'static>(
        &self,
        guard: Guard,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let task = async move {
            let done = work.await;
            drop(guard);
            done.inspect_err(report)
        };
        let done = self.tasks.spawn(task.in_current_span()).await.unwrap_or(Err(VolumeError::Lost));
        Ok(Response::new(done?))
    }

    /// Shares things for as long as the guard lives; for answers that take their time.
    pub fn share(&self, keys: Vec<Key>) -> Result<Guard, VolumeError> {
        self.in_flight.enter(Vec::new(), keys)
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
