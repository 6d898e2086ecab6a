//! Whether a volume of a pool holds anything.

use std::path::Path;

use bowline_host::Host;

use super::record::{Contents, Phase, VolumeRecord};
use crate::error::{During, VolumeError};
use crate::shelf::found::{self, Found, Read};

/// The name of the volume in a directory, and whether no workload ever had it.
pub async fn unused(host: &Host, dir: &Path) -> Result<Option<(String, bool)>, VolumeError> {
    let found: Found<VolumeRecord> = found::look(&*host.disk, dir).await.during("look at a volume")?;
    let Read::Good(record) = &found.record else { return Ok(None) };
    if record.ephemeral || record.phase == Phase::Deleting {
        return Ok(None);
    }
    let given = !record.published.is_empty() || !record.staged.is_empty() || record.device.is_some();
    let holds = record.source.is_some() || found.image.is_some_and(|image| image.has_data);
    let unused = !given && !holds && record.contents == Contents::Blank;
    Ok(Some((record.name.clone(), unused)))
}
