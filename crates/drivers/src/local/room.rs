//! How much the pool may promise, and who has which part of it.
//!
//! Images are sparse, so volumes and snapshots may together promise more than there is. Two settings bound that:
//! - `--capacity` is the part of the filesystem that counts as the pool. Without it all of the filesystem does, also
//!   what others keep there.
//! - `--over-provisioning` is how many times the pool may be promised in all.
//!
//! One volume is never larger than the pool, whatever the ratio, because it could never be filled: such a size is
//! out of range. A size that fits the pool but not what is left is a matter of place, so creation answers that the
//! pool is exhausted and the caller may try elsewhere. A volume that is to grow has no elsewhere; its caller is
//! told that the size is out of range, which lets it ask for less instead of asking again.
//!
//! The sum is kept by the shelves: a record counts from the moment it is written until it is removed. What is
//! about to be written is reserved, so that two calls at once never both take the last room.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_proto::csi::v1 as csi;

use super::config::LocalConfig;
use super::driver::Driver;
use crate::capability::FsType;
use crate::capacity::{MIB, Range, size_min, wire};
use crate::error::VolumeError;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The size of the pool, which no volume exceeds.
    pub size: u64,
    /// Bytes that may still be promised; the size of the pool where nothing bounds the sum.
    pub left: u64,
}

impl Room {
    pub fn new(config: &LocalConfig, total: u64, promised: u128) -> Self {
        // What is larger than a signed number cannot be asked for.
        let size = config.capacity.unwrap_or(u64::MAX).min(total).min(i64::MAX.cast_unsigned());
        let left = match config.over_provisioning {
            0 => size,
            ratio => {
                let left = (u128::from(size) * u128::from(ratio)).saturating_sub(promised);
                u64::try_from(left).unwrap_or(u64::MAX)
            }
        };
        Self { size, left }
    }

    /// The largest volume that can be made now.
    pub fn largest(&self) -> u64 {
        self.size.min(self.left) / MIB * MIB
    }

    /// The size of a volume to be created.
    pub fn choose(&self, range: &Range, fs: Option<FsType>) -> Result<u64, VolumeError> {
        let size = range.choose_up_to(self.size, self.left, fs)?;
        self.admit(size).map(|()| size)
    }

    /// Whether so many more bytes can be promised to one volume.
    pub fn admit(&self, want: u64) -> Result<(), VolumeError> {
        self.admit_size(want)?;
        if want > self.left {
            return Err(VolumeError::NoRoom { want, left: self.left });
        }
        Ok(())
    }

    /// Whether a pool of this size could have such a volume at all.
    pub fn admit_size(&self, want: u64) -> Result<(), VolumeError> {
        if want > self.size {
            let why = format!("{want} bytes are wanted, the whole pool has {}", self.size);
            return Err(VolumeError::OutOfRange { why });
        }
        Ok(())
    }

    /// What GetCapacity says of volumes with this filesystem: exactly what CreateVolume accepts.
    pub fn describe(&self, fs: Option<FsType>) -> csi::GetCapacityResponse {
        let smallest = size_min(fs);
        let largest = Some(self.largest()).filter(|largest| *largest >= smallest).unwrap_or(0);
        let left = if largest == 0 { 0 } else { self.left };
        csi::GetCapacityResponse {
            available_capacity: wire(left),
            maximum_volume_size: Some(wire(largest)),
            minimum_volume_size: Some(wire(smallest)),
        }
    }
}

/// Bytes about to be promised.
#[derive(Default)]
pub struct Reserved(Mutex<u128>);

/// Room for something whose record is being written. Dropped when the record counts, or will never exist.
pub struct Reservation<'a> {
    bytes: u64,
    reserved: &'a Reserved,
}

impl Reserved {
    fn lock(&self) -> MutexGuard<'_, u128> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.reserved.lock() -= u128::from(self.bytes);
    }
}

/// The room there is now, on a filesystem of `total` bytes.
pub fn now(driver: &Driver, total: u64) -> Room {
    let reserved = *driver.reserved.lock();
    beside(driver, total, reserved)
}

/// Takes room for a volume or snapshot that has no record yet.
pub fn reserve(driver: &Driver, total: u64, bytes: u64) -> Result<Reservation<'_>, VolumeError> {
    reserve_if(driver, total, bytes, |room| room.admit(bytes))
}

/// Takes room for `more` bytes if it is admitted. Nobody else looks or takes in between.
pub fn reserve_if(
    driver: &Driver,
    total: u64,
    more: u64,
    admitted: impl FnOnce(Room) -> Result<(), VolumeError>,
) -> Result<Reservation<'_>, VolumeError> {
    let mut reserved = driver.reserved.lock();
    admitted(beside(driver, total, *reserved))?;
    *reserved += u128::from(more);
    Ok(Reservation { bytes: more, reserved: &driver.reserved })
}

/// Records are counted after reservations: one that moves from the one to the other meanwhile counts twice, never
/// not at all.
fn beside(driver: &Driver, total: u64, reserved: u128) -> Room {
    let promised = driver.pool.volumes.promised() + driver.pool.snapshots.promised();
    Room::new(&driver.config, total, promised + reserved)
}
