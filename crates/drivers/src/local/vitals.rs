//! What an operator wants to know of the pool, for the metrics page.

use tonic::async_trait;

use super::driver::Driver;
use crate::error::{VolumeError, chain};
use crate::metrics::{Gauge, Vitals};

#[async_trait]
impl Vitals for Driver {
    async fn gauges(&self) -> Vec<Gauge> {
        let count = |number: usize| number as u64;
        let volumes = self.pool.volumes.all();
        let promised = volumes.iter().fold(0_u64, |sum, (_, record)| sum.saturating_add(record.capacity));
        let snapshots = self.pool.snapshots.all().len();
        let gauge = |name, help, value| Gauge { name, help, value };
        let mut gauges = vec![
            gauge("bowline_local_volumes", "Volumes in the pool.", count(volumes.len())),
            gauge(
                "bowline_local_abnormal_volumes",
                "Volumes that something adverse is known of.",
                count(self.health.adverse().len()),
            ),
            gauge("bowline_local_snapshots", "Snapshots in the pool.", count(snapshots)),
            gauge("bowline_local_pool_promised_bytes", "Bytes that volumes may come to use.", promised),
        ];
        match self.pool.space().await {
            Ok(space) => gauges.extend([
                gauge("bowline_local_pool_total_bytes", "Size of the pool's filesystem.", space.total),
                gauge("bowline_local_pool_available_bytes", "Bytes that are free there.", space.available),
            ]),
            Err(error) => tracing::warn!(error = chain(&error), "the pool's space is not in the metrics"),
        }
        gauges
    }

    async fn check(&self) -> Result<(), VolumeError> {
        self.pool.check_writable().await
    }
}
