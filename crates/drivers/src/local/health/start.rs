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

/// Images in the pool that have a loop device, spelled as the pool spells them.
async fn attached(driver: &Driver) -> Result<BTreeSet<PathBuf>> {
    let root = &driver.config.pool;
    // The kernel knows images by their path without links.
    let real = driver.host.disk.canonical(root).await.during("resolve pool directory")?;
    let loops = driver.host.kernel.loops().await.during("list loop devices")?;
    let ours = loops.iter().filter_map(|device| device.image.strip_prefix(&real).ok());
    Ok(ours.map(|inner| root.join(inner)).collect())
}
