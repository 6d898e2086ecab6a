//! What the services share.

use std::sync::Arc;

use bowline_host::Host;
use tonic::{Response, Status};

use super::NAME;
use super::adopt::adopt;
use super::aftermath;
use super::config::LocalConfig;
use super::devices::{self, Claims};
use super::fit;
use super::health;
use super::pool::Pool;
use super::room::Reserved;
use crate::error::VolumeError;
use crate::id::VolumeId;
use crate::patience::Patience;
use crate::work::Work;

pub struct Driver {
    pub host: Host,
    pub config: LocalConfig,
    pub pool: Pool,
    /// Held from counting a node's volumes to recording one more.
    pub attaching: tokio::sync::Mutex<()>,
    pub reserved: Reserved,
    pub patience: Patience,
    pub work: Work,
    pub health: health::Memory,
    pub claims: Claims,
}

impl Driver {
    pub async fn open(host: Host, config: LocalConfig) -> Result<Arc<Self>, VolumeError> {
        let pool = Pool::open(host.clone(), &config.pool).await?;
        let work = Work::new(NAME, pool.quarantined());
        let (attaching, reserved, patience, health, claims) = Default::default();
        let driver = Self { host, config, pool, attaching, reserved, patience, work, health, claims };
        aftermath::settle(&driver).await;
        adopt(&driver).await;
        fit::all(&driver).await?;
        devices::begin(&driver).await;
        health::begin(&driver).await;
        Ok(Arc::new(driver))
    }

    /// Runs one operation on a volume to its end.
    pub async fn exclusive<T: Send + 'static>(
        &self,
        id: &VolumeId,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.work.exclusive(vec![id.key()], work).await
    }

    /// Runs one operation that takes a volume from a workload.
    pub async fn teardown<T: Send + 'static>(
        &self,
        id: &VolumeId,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.work.teardown(id.key(), work).await
    }

    /// Marks a gap between two effects.
    pub fn point(&self, name: &str) {
        self.host.failpoints.hit(name);
    }
}
