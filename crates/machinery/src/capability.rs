//! Access modes of claims and volumes as CSI capabilities.

use bowline_api::volume::{READ_ONLY_MANY, READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD};
use bowline_proto::csi::v1::VolumeCapability;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

/// Whether the driver tells apart one writer from several on one node (SINGLE_NODE_MULTI_WRITER).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleNode {
    Plain,
    MultiWriter,
}

/// The one CSI mode for a whole list of Kubernetes modes.
pub fn access_mode(modes: &[String], single_node: SingleNode) -> Result<Mode, String> {
    let has = |mode: &str| modes.iter().any(|m| m == mode);
    if has(READ_WRITE_ONCE_POD) && modes.iter().any(|m| m != READ_WRITE_ONCE_POD) {
        return Err(format!("access mode {READ_WRITE_ONCE_POD} cannot stand beside others: {modes:?}"));
    }
    if has(READ_WRITE_MANY) {
        return Ok(Mode::MultiNodeMultiWriter);
    }
    match (has(READ_ONLY_MANY), has(READ_WRITE_ONCE), has(READ_WRITE_ONCE_POD), single_node) {
        (true, true, _, _) => {
            Err(format!("CSI has no mode for {READ_ONLY_MANY} and {READ_WRITE_ONCE} at once"))
        }
        (true, false, _, _) => Ok(Mode::MultiNodeReaderOnly),
        (false, true, _, SingleNode::Plain) | (false, false, true, SingleNode::Plain) => {
            Ok(Mode::SingleNodeWriter)
        }
        (false, true, _, SingleNode::MultiWriter) => Ok(Mode::SingleNodeMultiWriter),
        (false, false, true, SingleNode::MultiWriter) => Ok(Mode::SingleNodeSingleWriter),
        (false, false, false, _) => Err(format!("no access mode that CSI knows in {modes:?}")),
    }
}

/// A raw device.
pub fn block(mode: Mode) -> VolumeCapability {
    capability(mode, AccessType::Block(BlockVolume {}))
}

/// A filesystem; an empty type leaves the choice to the driver.
pub fn mount(mode: Mode, fs_type: &str, mount_flags: &[String]) -> VolumeCapability {
    mount_for_group(mode, fs_type, mount_flags, None)
}

/// A filesystem that the driver gives to a group; only for drivers with VOLUME_MOUNT_GROUP.
pub fn mount_for_group(
    mode: Mode,
    fs_type: &str,
    mount_flags: &[String],
    group: Option<u32>,
) -> VolumeCapability {
    let mount = MountVolume {
        fs_type: fs_type.into(),
        mount_flags: mount_flags.to_vec(),
        volume_mount_group: group.map(|gid| gid.to_string()).unwrap_or_default(),
    };
    capability(mode, AccessType::Mount(mount))
}

fn capability(mode: Mode, access_type: AccessType) -> VolumeCapability {
    VolumeCapability { access_mode: Some(AccessMode { mode: mode as i32 }), access_type: Some(access_type) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_as_upstream_maps_them() {
        use SingleNode::{MultiWriter, Plain};
        let table = [
            (&[READ_WRITE_ONCE][..], Plain, Some(Mode::SingleNodeWriter)),
            (&[READ_WRITE_ONCE], MultiWriter, Some(Mode::SingleNodeMultiWriter)),
            (&[READ_WRITE_ONCE_POD], Plain, Some(Mode::SingleNodeWriter)),
            (&[READ_WRITE_ONCE_POD], MultiWriter, Some(Mode::SingleNodeSingleWriter)),
            (&[READ_ONLY_MANY], Plain, Some(Mode::MultiNodeReaderOnly)),
            (&[READ_WRITE_MANY, READ_WRITE_ONCE, READ_ONLY_MANY], Plain, Some(Mode::MultiNodeMultiWriter)),
            (&[READ_ONLY_MANY, READ_WRITE_ONCE], Plain, None),
            (&[READ_WRITE_ONCE_POD, READ_WRITE_ONCE], Plain, None),
            (&[READ_WRITE_ONCE_POD, READ_WRITE_MANY], Plain, None),
            (&[], Plain, None),
            (&["ReadSometimes"], Plain, None),
        ];
        for (modes, single_node, want) in table {
            let modes: Vec<String> = modes.iter().map(ToString::to_string).collect();
            assert_eq!(access_mode(&modes, single_node).ok(), want, "{modes:?}");
        }
    }
}
