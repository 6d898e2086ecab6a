//! Images that are not what their record promises. Nothing is repaired by growing or making them: the bytes
//! that are missing were somebody's.

use std::io;
use std::path::PathBuf;

use super::driver::Driver;
use super::record::{Contents, VolumeRecord};
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

/// A longer image is a volume whose expansion is not written down yet.
fn judge(id: &VolumeId, have: &VolumeRecord, path: PathBuf, length: Option<u64>) -> Result<(), VolumeError> {
    let id = id.clone();
    match (have.contents, length) {
        // Nobody had this volume yet, and an image that is being swapped may be missing.
        (Contents::Formatting(_), _) => Ok(()),
        (_, None) => Err(VolumeError::Vanished { id, path }),
        (_, Some(length)) if length < have.capacity => {
            Err(VolumeError::Truncated { id, path, have: length, want: have.capacity })
        }
        (_, Some(_)) => Ok(()),
    }
}

pub async fn refuse(driver: &Driver, id: &VolumeId, have: &VolumeRecord) -> Result<(), VolumeError> {
    let path = driver.pool.image(id);
    let length = match driver.host.disk.length(&path).await {
        Ok(length) => Some(length),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).during("measure image"),
    };
    judge(id, have, path, length)
}
