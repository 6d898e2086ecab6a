//! Which version of CSI is spoken. A caller of one version refuses capabilities of another.

use bowline_proto::csi::v1::{controller_service_capability, node_service_capability};
use tonic::Status;

type Controller = controller_service_capability::rpc::Type;
type Node = node_service_capability::rpc::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Health is a condition in other answers.
    #[default]
    V1_12,
    /// Health has RPCs of its own, and conditions are gone.
    V1_13,
}

impl Dialect {
    /// What the controller can do in this version only.
    pub fn controller(self) -> &'static [Controller] {
        match self {
            Self::V1_12 => &[Controller::VolumeCondition],
            Self::V1_13 => &[Controller::GetVolumeHealth, Controller::ListVolumeHealth],
        }
    }

    /// What the node can do in this version only.
    pub fn node(self) -> &'static [Node] {
        match self {
            Self::V1_12 => &[Node::VolumeCondition],
            Self::V1_13 => &[Node::GetVolumeHealth, Node::GetStorageHealth],
        }
    }

    /// Whether snapshots say where they can be reached.
    pub fn has_snapshot_topology(self) -> bool {
        self == Self::V1_13
    }

    pub fn has_conditions(self) -> bool {
        self == Self::V1_12
    }

    /// For RPCs that came with 1.13.
    pub fn check_1_13(self) -> Result<(), Status> {
        match self {
            Self::V1_12 => Err(Status::unimplemented("start the driver with `--csi-1-13`")),
            Self::V1_13 => Ok(()),
        }
    }
}
