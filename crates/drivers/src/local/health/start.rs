//! The look at every image when the driver starts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::judge::Facts;
use super::{Result, look};
use crate::error::{During, chain};
use crate::local::driver::Driver;
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
                let facts = Facts { capacity: record.capacity, image, attached, filesystem: None };
                for finding in driver.health.note(&id, &facts) {
                    tracing::error!(volume = %id, reason = finding.reason, "{}", finding.message);
                }
            }
            Err(error) => tracing::warn!(volume = %id, error = chain(&error), "health is not known"),
        }
    }
}

/// Images that have a loop device. The kernel knows them by their path without links, as the pool does.
async fn attached(driver: &Driver) -> Result<BTreeSet<PathBuf>> {
    let loops = driver.host.kernel.loops().await.during("list loop devices")?;
    Ok(loops.into_iter().map(|device| device.image).collect())
}
