//! The look at every image when the driver starts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::judge::Facts;
use super::{Result, look};
use crate::error::{During, chain};
use crate::id::VolumeId;
use crate::local::devices::{self, Taken};
use crate::local::driver::Driver;
use crate::local::fit;
use crate::local::record::Phase;

/// Notes which volumes are attached and which images are missing or short. What cannot be seen is left for the
/// first look at the volume: a driver that cannot look must still be able to take volumes down.
pub async fn begin(driver: &Driver) {
    let attached = attached(driver).await.unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "devices that vanished before are not known");
        BTreeSet::new()
    });
    for (id, record) in driver.pool.volumes.all() {
        if record.phase != Phase::Ready {
            continue;
        }
        let attached = attached.contains(&driver.pool.image(&id));
        match look::image(driver, &id, &record).await {
            Ok(image) => {
                let taken = match record.device {
                    Some(_) => taken(driver, &id).await,
                    None => None,
                };
                let facts = Facts { capacity: record.capacity, image, attached, taken, filesystem: None };
                for finding in driver.health.note(&id, &facts) {
                    tracing::error!(volume = %id, reason = finding.reason, "{}", finding.message);
                }
            }
            Err(error) => tracing::warn!(volume = %id, error = chain(&error), "health is not known"),
        }
    }
}

/// Whether users of a block volume see another device since the last process.
async fn taken(driver: &Driver, id: &VolumeId) -> Option<Taken> {
    let attached = fit::attached(driver, id).await.ok()?;
    devices::taken(driver, id, attached.as_deref()).await.ok()?
}

/// Images that have a loop device. The kernel knows them by their path without links, as the pool does.
async fn attached(driver: &Driver) -> Result<BTreeSet<PathBuf>> {
    let loops = driver.host.kernel.loops().await.during("list loop devices")?;
    Ok(loops.into_iter().map(|device| device.image).collect())
}
