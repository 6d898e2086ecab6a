//! Operations that end, whatever becomes of their callers.

use tokio_util::task::TaskTracker;
use tonic::{Response, Status};
use tracing::{Instrument, Span};

use crate::error::{VolumeError, chain};
use crate::id::Key;
use crate::inflight::InFlight;

#[derive(Default)]
pub struct Work {
    in_flight: InFlight,
    tasks: TaskTracker,
}

impl Work {
    /// Runs one operation to its end while nothing else touches `keys`.
    ///
    /// The server drops a handler when its client resets the stream or runs out of time. A mount half done and a
    /// free guard would follow, so the work and the guard live in a task of their own.
    pub async fn exclusive<T: Send + 'static>(
        &self,
        keys: Vec<Key>,
        span: Span,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let guard = self.in_flight.enter(keys)?;
        let task = async move {
            let done = work.await;
            drop(guard);
            done.inspect_err(report)
        };
        let done = self.tasks.spawn(task.instrument(span)).await.unwrap_or(Err(VolumeError::Lost));
        Ok(Response::new(done?))
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
