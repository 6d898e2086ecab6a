//! NodeGetVolumeStats: the room of the filesystem below, which all volumes of the pool share.

use std::path::Path;

use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_usage::Unit;

use super::driver::Driver;
use super::mounts::Seen;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;
use crate::place;

pub async fn stats(
    driver: &Driver,
    id: &VolumeId,
    path: &Path,
) -> Result<csi::NodeGetVolumeStatsResponse, VolumeError> {
    driver.ready(id)?;
    let path = place::as_mounted(&driver.host, path).await;
    // Figures of whatever else is at the path would be taken for the volume's.
    if !Seen::look(&driver.host, driver.data(id)).await?.is_at(&path) {
        return Err(VolumeError::NotAt { id: id.clone(), path });
    }
    let space = driver.host.disk.space(&path).await.during("measure volume")?;
    Ok(csi::NodeGetVolumeStatsResponse {
        usage: vec![
            usage(space.total, space.available, Unit::Bytes),
            usage(space.inodes_total, space.inodes_available, Unit::Inodes),
        ],
        ..Default::default()
    })
}

fn usage(total: u64, available: u64, unit: Unit) -> csi::VolumeUsage {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    csi::VolumeUsage {
        total: number(total),
        available: number(available),
        used: number(total.saturating_sub(available)),
        unit: unit.into(),
    }
}
