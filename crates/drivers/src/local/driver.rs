//! What the three services share.

use std::sync::Arc;

use bowline_host::Host;
use tokio_util::task::TaskTracker;
use tonic::{Response, Status};
use tracing::{Instrument, Span};

use super::config::LocalConfig;
use super::error::{VolumeError, chain};
use super::id::VolumeId;
use super::inflight::InFlight;
use super::pool::Pool;

pub struct Driver {
    pub host: Host,
    pub config: LocalConfig,
    pub pool: Pool,
    /// Held from counting a node's volumes to recording one more.
    pub attaching: tokio::sync::Mutex<()>,
    in_flight: InFlight,
    tasks: TaskTracker,
}

impl Driver {
    pub async fn open(host: Host, config: LocalConfig) -> Result<Arc<Self>, VolumeError> {
        let pool = Pool::open(host.clone(), &config.pool).await?;
        let (in_flight, tasks) = (InFlight::default(), TaskTracker::new());
        Ok(Arc::new(Self { host, config, pool, attaching: Default::default(), in_flight, tasks }))
    }

    /// Runs one operation on a volume to its end.
    ///
    /// The server drops a handler when its client resets the stream or runs out of time. A mount half done and a
    /// free guard would follow, so the work and the guard live in a task of their own.
    pub async fn exclusive<T: Send + 'static>(
        &self,
        id: &VolumeId,
        span: Span,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let guard = self.in_flight.enter(id)?;
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

    /// Marks a gap between two effects.
    pub fn point(&self, name: &str) {
        self.host.failpoints.hit(name);
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
