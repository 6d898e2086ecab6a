//! What the services share.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_host::Host;
use tonic::{Response, Status};

use super::NAME;
use super::config::ShareConfig;
use super::record::{Phase, ShareRecord};
use crate::error::VolumeError;
use crate::id::{Volume, VolumeId};
use crate::shelf::Shelf;
use crate::work::Work;

const SHARES: &str = "shares";
pub const DATA: &str = "data";

pub struct Driver {
    pub host: Host,
    pub config: ShareConfig,
    /// `<pool>/shares/<id>/{record.json, data/}`
    pub shares: Shelf<Volume, ShareRecord>,
    pub work: Work,
}

impl Driver {
    pub async fn open(host: Host, config: ShareConfig) -> Result<Arc<Self>, VolumeError> {
        let shares = Shelf::open(host.clone(), config.pool.join(SHARES)).await?;
        let quarantined = shares.quarantined().into_iter().map(|(id, why)| (id.key(), why)).collect();
        Ok(Arc::new(Self { host, config, shares, work: Work::new(NAME, quarantined) }))
    }

    /// The directory that workloads see.
    pub fn data(&self, id: &VolumeId) -> PathBuf {
        self.shares.path(id, DATA)
    }

    /// A volume that callers may use.
    pub fn ready(&self, id: &VolumeId) -> Result<Arc<ShareRecord>, VolumeError> {
        self.shares.refuse_quarantined(id)?;
        let found = self.shares.get(id).filter(|record| record.phase == Phase::Ready);
        found.ok_or_else(|| VolumeError::NotFound { id: id.to_string() })
    }

    /// A volume that was created, as opposed to one that comes and goes with its target.
    pub fn created(&self, id: &VolumeId) -> Result<Arc<ShareRecord>, VolumeError> {
        let record = self.ready(id)?;
        if record.inline.is_none() { Ok(record) } else { Err(VolumeError::NotFound { id: id.to_string() }) }
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
