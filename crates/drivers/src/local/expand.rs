//! ControllerExpandVolume: a larger image, a larger record, a larger device.

use bowline_proto::csi::v1 as csi;

use super::driver::Driver;
use super::record::VolumeRecord;
use super::room::{self, Room};
use super::{fit, parse, plan};
use crate::capability::{AccessType, Capability};
use crate::capacity::{MIB, Range};
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Debug)]
pub struct ExpandVolume {
    pub id: VolumeId,
    pub range: Range,
    /// How the caller uses the volume, if it says so.
    pub access: Option<AccessType>,
}

impl ExpandVolume {
    pub fn parse(request: &csi::ControllerExpandVolumeRequest) -> Result<Self> {
        parse::volume_id(&request.volume_id)?;
        let wire = request.capacity_range.as_ref().ok_or(VolumeError::Missing("capacity_range"))?;
        let range = Range::parse(Some(wire))?;
        if range == Range::default() {
            let why = "neither required_bytes nor limit_bytes is set".to_owned();
            return Err(VolumeError::Invalid { field: "capacity_range", why });
        }
        let access = request.volume_capability.as_ref().map(Capability::parse).transpose()?;
        Ok(Self {
            id: parse::existing(&request.volume_id)?,
            range,
            access: access.map(|capability| capability.access),
        })
    }
}

/// The size a volume is to have: whole MiB, never less than now, never above the limit.
pub fn size(range: Range, now: u64) -> Result<u64> {
    let refuse = |why: String| Err(VolumeError::OutOfRange { why });
    let Range { required, limit } = range;
    if limit != 0 && limit < now {
        return refuse(format!("the volume has {now} bytes and does not shrink, the limit is {limit}"));
    }
    if required <= now {
        return Ok(now);
    }
    match required.checked_next_multiple_of(MIB) {
        Some(size) if limit == 0 || size <= limit => Ok(size),
        Some(size) => refuse(format!("at least {size} bytes are needed, the limit is {limit}")),
        None => refuse(format!("{required} bytes are more than any volume has")),
    }
}

/// Where a volume is it has to grow; no other place can help, so want of room is a refused size.
fn admit(room: Room, size: u64, more: u64) -> Result<()> {
    room.admit_size(size)?;
    if more > room.left {
        let why = format!("{more} more bytes are wanted, the pool may promise {} more", room.left);
        return Err(VolumeError::OutOfRange { why });
    }
    Ok(())
}

/// Whether the node has a part in it. The device of a block user is grown here; a filesystem is grown where it is
/// mounted, and one too often is harmless where one too few would never be noticed.
fn needs_node(want: &ExpandVolume, have: &VolumeRecord) -> Result<bool> {
    match &want.access {
        None => Ok(have.access.filesystem.is_some()),
        Some(access) => match plan::fits(&want.id, access, have) {
            Ok(filesystem) => Ok(filesystem.is_some()),
            Err(error) => Err(VolumeError::Unsupported { why: error.to_string() }),
        },
    }
}

/// Grows the volume and answers with its size, and whether the node has to do its part.
///
/// # Crash safety
/// The image grows before the record says so: a record that promises more than its image has would look like lost
/// data. Dying in between leaves some unused bytes, which the repeated call makes part of the volume. The device
/// comes last and is fitted to the record again by whatever happens next: the repeated call, the next staging, the
/// next start.
pub async fn expand(driver: &Driver, want: ExpandVolume) -> Result<(u64, bool)> {
    let have = driver.pool.ready(&want.id)?;
    let node = needs_node(&want, &have)?;
    let size = size(want.range, have.capacity)?;
    let record = VolumeRecord { capacity: size, ..(*have).clone() };
    if size > have.capacity {
        refuse_broken(driver, &want.id, have.capacity).await?;
        let more = size - have.capacity;
        let total = driver.pool.space().await?.total;
        let _reserved = room::reserve_if(driver, total, more, |room| admit(room, size, more))?;
        driver.point("local.controller-expand.before-image");
        driver.pool.make_image(&want.id, size).await?;
        driver.point("local.controller-expand.before-record");
        driver.pool.volumes.put(&want.id, record.clone()).await?;
        driver.point("local.controller-expand.after-record");
    }
    if let Some(device) = fit::attached(driver, &want.id).await? {
        fit::size(driver, &record, &device).await?;
    }
    Ok((size, node))
}

/// Growing an image that has lost bytes would hide the loss behind zeros.
async fn refuse_broken(driver: &Driver, id: &VolumeId, want: u64) -> Result<()> {
    let path = driver.pool.image(id);
    match driver.host.disk.length(&path).await {
        Ok(have) if have < want => Err(VolumeError::Truncated { id: id.clone(), path, have, want }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(VolumeError::Vanished { id: id.clone(), path })
        }
        measured => measured.map(drop).during("measure image"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 64 * MIB;

    #[test]
    fn sizes_grown_to() {
        let table = [
            ("exact", 65 * MIB, 0, Some(65 * MIB)),
            ("rounded up", NOW + 1, 0, Some(65 * MIB)),
            ("rounded up to the limit", NOW + 1, 65 * MIB, Some(65 * MIB)),
            ("rounding would pass the limit", NOW + 1, NOW + 2, None),
            ("the size it has", NOW, NOW, Some(NOW)),
            ("less than it has", 1, 0, Some(NOW)),
            ("less, within a limit", MIB, NOW, Some(NOW)),
            ("a limit below", MIB, NOW - 1, None),
            ("only a limit", 0, 2 * NOW, Some(NOW)),
            ("only a limit below", 0, MIB, None),
            ("beyond any volume", u64::MAX, 0, None),
        ];
        for (name, required, limit, expected) in table {
            assert_eq!(size(Range { required, limit }, NOW).ok(), expected, "{name}");
        }
    }

    #[test]
    fn room_to_grow() {
        let room = Room { size: 100, left: 10 };
        assert!(admit(room, 100, 10).is_ok());
        for (size, more) in [(101, 10), (100, 11)] {
            let code = admit(room, size, more).map_err(|error| error.code());
            assert_eq!(code, Err(tonic::Code::OutOfRange), "{size} {more}");
        }
    }
}
