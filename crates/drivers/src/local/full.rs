//! A full pool, seen through a device: images are sparse, so a write into one may find no room below it, and the
//! kernel calls that an input/output error.

use super::driver::Driver;
use crate::error::VolumeError;

/// With less room than this, a failed kernel call is taken for want of it.
const ROOM_MIN: u64 = 1 << 20;

pub async fn explain(driver: &Driver, error: VolumeError) -> VolumeError {
    let VolumeError::Kernel { what, source } = error else { return error };
    match driver.pool.space().await {
        Ok(space) if space.available < ROOM_MIN => {
            VolumeError::Full { what, source: std::io::Error::other(source) }
        }
        Ok(_) | Err(_) => VolumeError::Kernel { what, source },
    }
}
