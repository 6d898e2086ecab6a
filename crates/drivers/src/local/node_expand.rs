//! NodeExpandVolume: the filesystem follows its device.

use bowline_proto::csi::v1 as csi;

use super::config::NamedNode;
use super::driver::Driver;
use super::fit;
use super::grow::Growing;
use super::mounts::Seen;
use super::plan;
use super::shown::{self, Found, Place, Shown};
use crate::capability::{AccessType, Capability};
use crate::capacity::Range;
use crate::error::VolumeError;

type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Debug)]
pub struct NodeExpandVolume {
    pub place: Place,
    /// Without bounds it means as large as can be.
    pub range: Range,
    access: Option<AccessType>,
}

impl NodeExpandVolume {
    pub fn parse(request: &csi::NodeExpandVolumeRequest) -> Result<Self> {
        let place = Place::parse(&request.volume_id, &request.volume_path);
        if let Err(error @ VolumeError::Missing(_)) = place {
            return Err(error);
        }
        let range = Range::parse(request.capacity_range.as_ref())?;
        let access = request.volume_capability.as_ref().map(Capability::parse).transpose()?;
        Ok(Self { place: place?, range, access: access.map(|capability| capability.access) })
    }
}

/// Grows what shows at the path to the size of the volume, and answers with that size.
pub async fn expand(driver: &Driver, node: &NamedNode, want: NodeExpandVolume) -> Result<u64> {
    let id = &want.place.id;
    let have = driver.pool.ready(id)?;
    if let Some(access) = &want.access {
        plan::fits(id, access, &have).map_err(|error| VolumeError::Unsupported { why: error.to_string() })?;
    }
    let seen = Seen::look(driver, id).await?;
    let Found { device, shown, seen } = shown::find(driver, node, &have, &want.place, seen).await?;
    admit(want.range, have.capacity)?;
    fit::size(driver, &have, &device).await?;
    if let Shown::Filesystem(mount) = shown {
        // A target may be read-only where the filesystem is not.
        let writable = seen.writable().ok_or_else(|| VolumeError::ReadOnlyMount { id: id.clone() })?;
        let (target, fs) = (writable.target.as_path(), mount.fs_type.as_str());
        Growing { driver, id, device: &device, target, fs, read_only: false }.grow().await?;
    }
    Ok(have.capacity)
}

/// The node only follows: more than the volume has is the controller's to give, and less it never becomes.
fn admit(range: Range, capacity: u64) -> Result<()> {
    if range.admits(capacity) {
        return Ok(());
    }
    let Range { required, limit } = range;
    let why = match required > capacity {
        true => format!(
            "the volume has {capacity} bytes, {required} are wanted; expand it in the controller first"
        ),
        false => format!("the volume has {capacity} bytes and does not shrink, the limit is {limit}"),
    };
    Err(VolumeError::OutOfRange { why })
}
