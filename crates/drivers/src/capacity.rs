//! Sizes: what a caller asks for and what it gets.

use bowline_proto::csi::v1::CapacityRange as WireRange;

use crate::capability::FsType;
use crate::error::VolumeError;

pub const MIB: u64 = 1 << 20;

/// Size of a volume when the caller names none.
pub const DEFAULT_SIZE: u64 = 1 << 30;

/// Bounds of a size; zero means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    pub required: u64,
    pub limit: u64,
}

impl Range {
    /// Both zero is a range without bounds, not a volume without bytes.
    pub fn parse(wire: Option<&WireRange>) -> Result<Self, VolumeError> {
        let Some(wire) = wire else { return Ok(Self::default()) };
        let bytes = |number: i64| {
            let why = || "negative size".to_owned();
            u64::try_from(number).map_err(|_| VolumeError::Invalid { field: "capacity_range", why: why() })
        };
        let range = Self { required: bytes(wire.required_bytes)?, limit: bytes(wire.limit_bytes)? };
        if range.limit != 0 && range.required > range.limit {
            let why = format!("required {} exceeds limit {}", range.required, range.limit);
            return Err(VolumeError::Invalid { field: "capacity_range", why });
        }
        Ok(range)
    }

    /// Whether a volume of this size is what the caller asked for.
    pub fn admits(&self, size: u64) -> bool {
        self.required <= size && (self.limit == 0 || size <= self.limit)
    }

    /// The size to create: whole MiB, enough for the filesystem, never above the limit.
    pub fn choose(&self, fs: Option<FsType>) -> Result<u64, VolumeError> {
        let size_min = fs.map_or(MIB, FsType::size_min);
        let wanted = match (self.required, self.limit) {
            (0, 0) => DEFAULT_SIZE,
            (0, limit) => DEFAULT_SIZE.min(limit / MIB * MIB),
            (required, _) => required,
        };
        let refuse = |why: String| VolumeError::OutOfRange { why };
        let size = wanted
            .max(size_min)
            .checked_next_multiple_of(MIB)
            .filter(|size| i64::try_from(*size).is_ok())
            .ok_or_else(|| refuse(format!("{wanted} bytes are more than any volume has")))?;
        if self.limit != 0 && size > self.limit {
            return Err(refuse(format!("at least {size} bytes are needed, the limit is {}", self.limit)));
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_chosen() {
        let xfs = Some(FsType::Xfs);
        let ext4 = Some(FsType::Ext4);
        let table = [
            ("nothing asked", 0, 0, ext4, Some(GIB)),
            ("only a limit below the default", 0, 10 * MIB + 5, ext4, Some(10 * MIB)),
            ("only a limit above the default", 0, 5 * GIB, ext4, Some(GIB)),
            ("rounded up", 1, 0, ext4, Some(MIB)),
            ("exact", 3 * MIB, 3 * MIB, ext4, Some(3 * MIB)),
            ("rounding would pass the limit", MIB + 1, MIB + 2, ext4, None),
            ("xfs raised to its minimum", MIB, 0, xfs, Some(300 * MIB)),
            ("xfs minimum above the limit", MIB, 299 * MIB, xfs, None),
            ("limit below one unit", 0, MIB - 1, None, None),
            ("beyond any volume", u64::MAX / 2, 0, None, None),
        ];
        for (name, required, limit, fs, expected) in table {
            assert_eq!(Range { required, limit }.choose(fs).ok(), expected, "{name}");
        }
    }

    #[test]
    fn ranges_read() {
        let table = [
            ("absent", None, Some((0, 0))),
            ("both zero", Some((0, 0)), Some((0, 0))),
            ("ordered", Some((1, 2)), Some((1, 2))),
            ("no limit", Some((5, 0)), Some((5, 0))),
            ("reversed", Some((2, 1)), None),
            ("negative", Some((-1, 0)), None),
            ("negative limit", Some((0, -1)), None),
        ];
        for (name, wire, expected) in table {
            let wire = wire.map(|(required_bytes, limit_bytes)| WireRange { required_bytes, limit_bytes });
            let range = Range::parse(wire.as_ref()).ok();
            assert_eq!(range, expected.map(|(required, limit)| Range { required, limit }), "{name}");
        }
    }
}
