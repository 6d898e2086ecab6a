//! NodeGetVolumeStats: how full a volume is.

use std::sync::Arc;

use bowline_host::disk::Space;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::VolumeUsage;
use bowline_proto::csi::v1::volume_usage::Unit;

use super::config::NamedNode;
use super::driver::Driver;
use super::health;
use super::mounts::Seen;
use super::shown::{self, Found, Place, Shown};
use crate::capacity::wire;
use crate::error::{During, VolumeError};

type Result<T> = std::result::Result<T, VolumeError>;

pub async fn stats(
    driver: &Arc<Driver>,
    node: &Arc<NamedNode>,
    request: &csi::NodeGetVolumeStatsRequest,
) -> Result<csi::NodeGetVolumeStatsResponse> {
    let place = Place::parse(&request.volume_id, &request.volume_path)?;
    let path = place.path.clone();
    let question = {
        let (driver, node) = (driver.clone(), node.clone());
        async move { look(&driver, &node, place).await }
    };
    driver.patience.ask(&path, question).await
}

async fn look(driver: &Driver, node: &NamedNode, place: Place) -> Result<csi::NodeGetVolumeStatsResponse> {
    let id = place.id.clone();
    let usage = match usage(driver, node, place).await {
        // The condition says what is wrong; figures of another's device must not stand beside it.
        Err(VolumeError::DeviceTaken { .. }) if driver.config.dialect.has_conditions() => Vec::new(),
        usage => usage?,
    };
    let volume_condition = match driver.config.dialect.has_conditions() {
        true => Some(health::condition(&health::of(driver, &id).await?)),
        false => None,
    };
    Ok(csi::NodeGetVolumeStatsResponse { usage, volume_condition })
}

/// Figures are taken at the mount that the table shows, so those of another filesystem are never given out.
async fn usage(driver: &Driver, node: &NamedNode, place: Place) -> Result<Vec<VolumeUsage>> {
    let have = driver.pool.present(&place.id)?;
    let seen = Seen::peek(driver, &place.id).await?;
    let Found { device, shown, .. } = shown::find(driver, node, &have, &place, seen).await?;
    match shown {
        Shown::Filesystem(mount) => {
            let space = driver.host.disk.space(&mount.target).await.during("measure filesystem")?;
            Ok(of_filesystem(&space))
        }
        Shown::Device => {
            let size = driver.host.kernel.device_size(&device).await.during("measure device")?;
            Ok(vec![VolumeUsage { total: wire(size), unit: Unit::Bytes.into(), ..Default::default() }])
        }
    }
}

/// What is kept for the filesystem's own needs counts as used: no workload gets it. Inodes are left out where the
/// filesystem makes them as it needs them.
fn of_filesystem(space: &Space) -> Vec<VolumeUsage> {
    let usage = |unit: Unit, total: u64, available: u64| VolumeUsage {
        total: wire(total),
        available: wire(available),
        used: wire(total.saturating_sub(available)),
        unit: unit.into(),
    };
    let inodes =
        (space.inodes_total > 0).then(|| usage(Unit::Inodes, space.inodes_total, space.inodes_available));
    std::iter::once(usage(Unit::Bytes, space.total, space.available)).chain(inodes).collect()
}
