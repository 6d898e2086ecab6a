//! How a volume is to be used, as types instead of wire numbers.

use std::fmt;

use bowline_proto::csi::v1::VolumeCapability;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode as WireMode;
use bowline_proto::csi::v1::volume_capability::{AccessType as WireType, MountVolume};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::capacity::MIB;
use crate::error::VolumeError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsType {
    Ext4,
    Xfs,
}

impl FsType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Smallest device its mkfs accepts.
    pub fn size_min(self) -> u64 {
        match self {
            Self::Ext4 => MIB,
            Self::Xfs => 300 * MIB,
        }
    }

    /// Empty leaves the choice to the driver.
    fn parse(text: &str) -> Result<Option<Self>, VolumeError> {
        match text {
            "" => Ok(None),
            "ext4" => Ok(Some(Self::Ext4)),
            "xfs" => Ok(Some(Self::Xfs)),
            _ => Err(VolumeError::Unsupported { why: "only ext4 and xfs are supported".into() }),
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
    pub fn read_only(&self) -> bool {
        self.0.iter().flat_map(|flag| flag.split(',')).any(|word| word == "ro")
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
    Mount { fs: Option<FsType>, flags: MountFlags },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    pub access: AccessType,
    pub mode: Mode,
}

/// Words that change what a mount is instead of how it behaves.
const FORBIDDEN_FLAGS: [&str; 10] =
    ["bind", "rbind", "move", "remount", "shared", "rshared", "slave", "rslave", "private", "rprivate"];

impl Capability {
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

    /// A fixed-length stand-in for the whole capability, safe to store although flags are not.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        match &self.access {
            AccessType::Block => hash.update("block"),
            AccessType::Mount { fs, flags } => {
                hash.update(fs.map_or("default", FsType::as_str));
                for flag in &flags.0 {
                    hash.update([0]);
                    hash.update(flag);
                }
            }
        }
        hash.update([0, 0, self.mode as u8]);
        format!("{:x}", hash.finalize())
    }
}

fn parse_mount(mount: &MountVolume) -> Result<AccessType, VolumeError> {
    if !mount.volume_mount_group.is_empty() {
        return Err(VolumeError::Unsupported { why: "volume_mount_group".into() });
    }
    let mut words = mount.mount_flags.iter().flat_map(|flag| flag.split(','));
    if words.any(|word| word.contains('\0') || FORBIDDEN_FLAGS.contains(&word)) {
        return Err(VolumeError::Unsupported { why: "a mount flag that rearranges mounts".into() });
    }
    Ok(AccessType::Mount { fs: FsType::parse(&mount.fs_type)?, flags: MountFlags(mount.mount_flags.clone()) })
}

fn parse_mode(number: i32) -> Result<Mode, VolumeError> {
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
