//! How a share is to be used.

use bowline_proto::csi::v1::VolumeCapability;
use bowline_proto::csi::v1::volume_capability::{AccessType, MountVolume};

use crate::capability::{Mode, parse_mode};
use crate::error::VolumeError;
use crate::fields::invalid;

type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    pub mode: Mode,
    /// Whether no target may be written through, whatever the call says.
    pub read_only: bool,
    /// The group that has to be able to use the directory.
    pub group: Option<u32>,
}

impl Capability {
    pub fn parse(wire: &VolumeCapability) -> Result<Self> {
        let access = wire.access_type.as_ref().ok_or(VolumeError::Missing("access_type"))?;
        let mode = wire.access_mode.as_ref().ok_or(VolumeError::Missing("access_mode"))?.mode;
        let AccessType::Mount(mount) = access else {
            return Err(unsupported("a directory is no block device"));
        };
        let mode = parse_mode(mode)?;
        if !mount.fs_type.is_empty() {
            return Err(unsupported("a share has the filesystem of its pool; leave fs_type empty"));
        }
        Ok(Self { mode, read_only: read_only(mount)? || mode.read_only(), group: group(mount)? })
    }

    /// Whether the volume may show at one place only.
    pub fn one_target(&self) -> bool {
        self.mode == Mode::SingleWriter
    }
}

/// A bind has no options of its own but this one. The words stay out of the message: they may be secret.
fn read_only(mount: &MountVolume) -> Result<bool> {
    let mut read_only = false;
    for word in mount.mount_flags.iter().flat_map(|flag| flag.split(',')) {
        match word {
            "ro" => read_only = true,
            "rw" => read_only = false,
            "defaults" | "" => {}
            _ => return Err(unsupported("a share takes no mount flags but `ro` and `rw`")),
        }
    }
    Ok(read_only)
}

fn group(mount: &MountVolume) -> Result<Option<u32>> {
    match mount.volume_mount_group.as_str() {
        "" => Ok(None),
        text => number(text).map(Some).ok_or_else(|| invalid("volume_mount_group", "not a group number")),
    }
}

/// A user or group number. The largest one means "unchanged" to the kernel, so nobody has it.
pub fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}

fn unsupported(why: &str) -> VolumeError {
    VolumeError::Unsupported { why: why.into() }
}

#[cfg(test)]
mod tests {
    use bowline_proto::csi::v1::volume_capability::access_mode::Mode as WireMode;
    use bowline_proto::csi::v1::volume_capability::{AccessMode, BlockVolume};

    use super::*;

    fn parse(mode: WireMode, flags: &[&str], group: &str) -> Option<(bool, bool, Option<u32>)> {
        let mount = MountVolume {
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            volume_mount_group: group.into(),
            ..Default::default()
        };
        let wire = VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            access_mode: Some(AccessMode { mode: mode.into() }),
        };
        let parsed = Capability::parse(&wire).ok()?;
        Some((parsed.one_target(), parsed.read_only, parsed.group))
    }

    #[test]
    fn modes_flags_and_groups() {
        let table = [
            (WireMode::SingleNodeWriter, [].as_slice(), "", Some((false, false, None))),
            (WireMode::SingleNodeReaderOnly, &[], "", Some((false, true, None))),
            (WireMode::MultiNodeReaderOnly, &["rw"], "", Some((false, true, None))),
            (WireMode::MultiNodeSingleWriter, &[], "", Some((false, false, None))),
            (WireMode::MultiNodeMultiWriter, &["ro"], "", Some((false, true, None))),
            (WireMode::MultiNodeMultiWriter, &["ro,rw", "defaults"], "0", Some((false, false, Some(0)))),
            (WireMode::SingleNodeSingleWriter, &[], "1000", Some((true, false, Some(1000)))),
            (WireMode::SingleNodeMultiWriter, &[], "", Some((false, false, None))),
            (WireMode::Unknown, &[], "", None),
            (WireMode::SingleNodeWriter, &["noexec"], "", None),
            (WireMode::SingleNodeWriter, &["bind"], "", None),
            (WireMode::SingleNodeWriter, &[], "staff", None),
            (WireMode::SingleNodeWriter, &[], "-1", None),
            (WireMode::SingleNodeWriter, &[], "4294967295", None),
        ];
        for (mode, flags, group, expected) in table {
            assert_eq!(parse(mode, flags, group), expected, "{mode:?} {flags:?} {group:?}");
        }
    }

    #[test]
    fn a_directory_is_neither_a_device_nor_formatted() {
        let mode = Some(AccessMode { mode: WireMode::SingleNodeWriter.into() });
        let block =
            VolumeCapability { access_type: Some(AccessType::Block(BlockVolume {})), access_mode: mode };
        assert!(matches!(Capability::parse(&block), Err(VolumeError::Unsupported { .. })));
        let mount = MountVolume { fs_type: "ext4".into(), ..Default::default() };
        let ext4 = VolumeCapability { access_type: Some(AccessType::Mount(mount)), access_mode: mode };
        assert!(matches!(Capability::parse(&ext4), Err(VolumeError::Unsupported { .. })));
    }
}
