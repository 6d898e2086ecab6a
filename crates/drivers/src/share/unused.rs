//! Whether a volume of a pool holds anything.

use std::path::Path;

use bowline_host::Host;

use super::driver::DATA;
use super::record::{Phase, ShareRecord};
use crate::error::{During, VolumeError};
use crate::shelf::found::{self, Read};

/// The name of the volume in a directory, and whether it is empty.
pub async fn unused(host: &Host, dir: &Path) -> Result<Option<(String, bool)>, VolumeError> {
    let Read::Good(record) = found::record::<ShareRecord>(&*host.disk, dir).await else { return Ok(None) };
    if record.inline.is_some() || record.phase == Phase::Deleting {
        return Ok(None);
    }
    let names = host.disk.list(&dir.join(DATA)).await.during("look at a volume")?;
    Ok(Some((record.name, names.is_empty())))
}
