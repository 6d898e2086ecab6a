//! How a volume is to be used, as types instead of wire numbers.

use std::fmt;

use bowline_proto::csi::v1::VolumeCapability;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode as WireMode;
use bowline_proto::csi::v1::volume_capability::{AccessType as WireType, MountVolume};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::capacity::MIB;
use crate::error::VolumeError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsType {
    #[default]
    Ext4,
    Xfs,
    Btrfs,
}

impl FsType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Smallest device its mkfs accepts.
    pub fn size_min(self) -> u64 {
        match self {
            Self::Ext4 => MIB,
            Self::Xfs => 300 * MIB,
            Self::Btrfs => 109 * MIB,
        }
    }

    /// Whether the kernel tells two of them apart by an identity inside, so that a copy needs one of its own.
    pub fn is_unique(self) -> bool {
        match self {
            Self::Btrfs => true,
            // xfs can be told not to look.
            Self::Ext4 | Self::Xfs => false,
        }
    }

    /// The command that looks for damage, and repairs it where that is safe, in an image that is not in use.
    pub fn repair(self) -> &'static str {
        match self {
            Self::Ext4 => "e2fsck -f",
            Self::Xfs => "xfs_repair -f",
            Self::Btrfs => "btrfs check",
        }
    }

    /// Empty leaves the choice to the driver.
    pub fn parse(text: &str) -> Result<Option<Self>, VolumeError> {
        match text {
            "" => Ok(None),
            "ext4" => Ok(Some(Self::Ext4)),
            "xfs" => Ok(Some(Self::Xfs)),
            "btrfs" => Ok(Some(Self::Btrfs)),
            _ => Err(VolumeError::Unsupported { why: "only ext4, xfs and btrfs are supported".into() }),
        }
    }
}

/// Who may use a volume, and from how many nodes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    Writer,
    ReaderOnly,
    SingleWriter,
    MultiWriter,
    NodesReaderOnly,
    NodesSingleWriter,
    NodesMultiWriter,
}

impl Mode {
    /// Whether several nodes may have the volume at once.
    pub fn spans_nodes(self) -> bool {
        match self {
            Self::NodesReaderOnly | Self::NodesSingleWriter | Self::NodesMultiWriter => true,
            Self::Writer | Self::ReaderOnly | Self::SingleWriter | Self::MultiWriter => false,
        }
    }

    pub fn read_only(self) -> bool {
        matches!(self, Self::ReaderOnly | Self::NodesReaderOnly)
    }
}

/// Options of mount(8). They may carry credentials, so they never print.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MountFlags(pub Vec<String>);

impl MountFlags {
    /// Of contradicting words the last one counts, as it does for mount(8).
    pub fn read_only(&self) -> bool {
        self.words().filter(|word| matches!(*word, "ro" | "rw")).last() == Some("ro")
    }

    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|flag| flag.split(',')).filter(|word| !word.is_empty())
    }
}

impl fmt::Debug for MountFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} mount flags>", self.0.len())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessType {
    Block,
    Mount {
        fs: Option<FsType>,
        flags: MountFlags,
        /// The group that everything in the volume shall belong to.
        group: Option<u32>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    pub access: AccessType,
    pub mode: Mode,
}

impl Capability {
    /// Reads the types only. Which mount options are allowed is asked where a volume is created and where its
    /// filesystem is mounted: a volume that an earlier version mounted goes on, whatever its options are.
    pub fn parse(wire: &VolumeCapability) -> Result<Self, VolumeError> {
        let access = match wire.access_type.as_ref().ok_or(VolumeError::Missing("access_type"))? {
            WireType::Block(_) => AccessType::Block,
            WireType::Mount(mount) => parse_mount(mount)?,
        };
        let mode = wire.access_mode.as_ref().ok_or(VolumeError::Missing("access_mode"))?.mode;
        Ok(Self { access, mode: parse_mode(mode)? })
    }

    /// Whether no target of the volume may be written through.
    pub fn read_only(&self) -> bool {
        let mounted = matches!(&self.access, AccessType::Mount { flags, .. } if flags.read_only());
        mounted || self.mode.read_only()
    }

    /// The group to apply: to what nobody may write there is nothing to apply.
    pub fn group(&self) -> Option<u32> {
        match self.access {
            AccessType::Mount { group, .. } if !self.read_only() => group,
            AccessType::Mount { .. } | AccessType::Block => None,
        }
    }

    /// A fixed-length stand-in for the whole capability, safe to store although flags are not.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        match &self.access {
            AccessType::Block => hash.update("block"),
            AccessType::Mount { fs, flags, group } => {
                hash.update(fs.map_or("default", FsType::as_str));
                for flag in &flags.0 {
                    hash.update([0]);
                    hash.update(flag);
                }
                if let Some(group) = group {
                    // No flag holds this byte, as text is UTF-8.
                    hash.update([0xff]);
                    hash.update(group.to_le_bytes());
                }
            }
        }
        hash.update([0, 0, self.mode as u8]);
        format!("{:x}", hash.finalize())
    }
}

fn parse_mount(mount: &MountVolume) -> Result<AccessType, VolumeError> {
    let flags = MountFlags(mount.mount_flags.clone());
    let fs = FsType::parse(&mount.fs_type)?;
    let group = parse_group(&mount.volume_mount_group)?;
    Ok(AccessType::Mount { fs, flags, group })
}

/// A decimal number and nothing else. The highest one means "no group" to the kernel.
fn parse_group(text: &str) -> Result<Option<u32>, VolumeError> {
    if text.is_empty() {
        return Ok(None);
    }
    let decimal = text.bytes().all(|c| c.is_ascii_digit());
    let group = text.parse().ok().filter(|group| decimal && *group != u32::MAX);
    let why = || "not the decimal number of a group".to_owned();
    group.map(Some).ok_or_else(|| VolumeError::Invalid { field: "volume_mount_group", why: why() })
}

pub fn parse_mode(number: i32) -> Result<Mode, VolumeError> {
    match WireMode::try_from(number) {
        Ok(WireMode::SingleNodeWriter) => Ok(Mode::Writer),
        Ok(WireMode::SingleNodeReaderOnly) => Ok(Mode::ReaderOnly),
        Ok(WireMode::SingleNodeSingleWriter) => Ok(Mode::SingleWriter),
        Ok(WireMode::SingleNodeMultiWriter) => Ok(Mode::MultiWriter),
        Ok(WireMode::MultiNodeReaderOnly) => Ok(Mode::NodesReaderOnly),
        Ok(WireMode::MultiNodeSingleWriter) => Ok(Mode::NodesSingleWriter),
        Ok(WireMode::MultiNodeMultiWriter) => Ok(Mode::NodesMultiWriter),
        Ok(WireMode::Unknown) => Err(VolumeError::Missing("access_mode.mode")),
        Err(_) => Err(VolumeError::Unsupported { why: format!("access mode {number}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(group: &str, flags: &[&str]) -> Result<Capability, VolumeError> {
        let mount_flags = flags.iter().map(ToString::to_string).collect();
        let mount = MountVolume { volume_mount_group: group.into(), mount_flags, ..Default::default() };
        Ok(Capability { access: parse_mount(&mount)?, mode: Mode::Writer })
    }

    #[test]
    fn groups_read() {
        let table = [
            ("", Some(None)),
            ("0", Some(Some(0))),
            ("1000", Some(Some(1000))),
            ("007", Some(Some(7))),
            ("4294967294", Some(Some(u32::MAX - 1))),
            ("4294967295", None),
            ("4294967296", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("0x10", None),
            ("users", None),
        ];
        for (text, expected) in table {
            let group = mount(text, &[]).map(|capability| capability.group());
            assert_eq!(group.as_ref().ok(), expected.as_ref(), "{text:?}");
            if let Err(error) = group {
                assert_eq!(error.code(), tonic::Code::InvalidArgument, "{text:?}");
            }
        }
        assert_eq!(mount("7", &["noatime,ro"]).map(|capability| capability.group()).ok(), Some(None));
    }

    #[test]
    fn flags_read() {
        let table: [(&[&str], bool); 6] = [
            (&[], false),
            (&["noatime", "discard"], false),
            (&["noatime,ro"], true),
            (&["ro", "rw"], false),
            (&["rw", "ro"], true),
            (&["an-option-of-an-earlier-version,ro"], true),
        ];
        for (flags, expected) in table {
            let read_only = mount("", flags).map(|capability| capability.read_only());
            assert_eq!(read_only.ok(), Some(expected), "{flags:?}");
        }
    }

    #[test]
    fn a_digest_tells_capabilities_apart() {
        let all = [
            mount("", &[]),
            mount("", &["noatime"]),
            mount("", &["ro"]),
            mount("", &["noatime", "ro"]),
            mount("1", &[]),
            mount("2", &[]),
            mount("1", &["ro"]),
        ];
        let digests: Vec<_> = all.iter().map(|one| one.as_ref().expect("valid").digest()).collect();
        let different: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
