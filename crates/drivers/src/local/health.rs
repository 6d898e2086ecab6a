//! What is wrong with a volume, or with the pool.
//!
//! A look costs a few calls to disk and kernel. It is taken when somebody asks for one volume, at the end of every
//! staging and unstaging, and for the images at start. Lists must stay cheap with thousands of volumes, so they
//! tell what the last look found: an image that vanishes later shows in a list only after the next look.
//!
//! A look that fails changes nothing: not knowing is no recovery. Nor does a look during an operation, which
//! would take what is half done for damage; until the operation ends, what was known before stands.

mod judge;
mod look;
mod memory;
mod rpc;
mod start;
mod storage;
#[cfg(test)]
mod tests;

use super::driver::Driver;
use crate::error::{VolumeError, chain};
use crate::id::VolumeId;

pub use judge::Finding;
pub use memory::Memory;
pub use rpc::{condition, list, of_node, of_storage, of_volume};
pub use start::begin;

type Result<T> = std::result::Result<T, VolumeError>;

/// Everything adverse that is known of a volume, after a look at it; empty means that nothing is.
pub async fn of(driver: &Driver, id: &VolumeId) -> Result<Vec<Finding>> {
    let record = driver.pool.present(id)?;
    let Some(watch) = driver.work.watch(id.key()) else { return Ok(driver.health.known(id)) };
    let facts = look::at(driver, id, &record).await?;
    let noted = watch.undisturbed(|| driver.health.note(id, &facts));
    Ok(noted.unwrap_or_else(|| driver.health.known(id)))
}

/// Looks at the end of an operation, whose caller holds the volume.
pub async fn refresh(driver: &Driver, id: &VolumeId) {
    let Some(record) = driver.pool.volumes.get(id) else { return };
    match look::at(driver, id, &record).await {
        Ok(facts) => _ = driver.health.note(id, &facts),
        Err(error) => tracing::debug!(error = chain(&error), "health is as it was known before"),
    }
}
