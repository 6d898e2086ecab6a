//! What the driver can do for a resizer, asked once when the program starts.

use bowline_machinery::csi::{Classes, call};
use bowline_machinery::{EffectError, Effects, RunError, Sidecar};
use bowline_proto::csi::v1::NodeGetCapabilitiesRequest;
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use bowline_proto::csi::v1::node_service_capability;
use bowline_proto::csi::v1::node_service_capability::rpc::Type as NodeRpc;
use bowline_proto::csi::v1::plugin_capability::service::Type as Service;

/// Where a driver enlarges volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expansion {
    /// ControllerExpandVolume, and NodeExpandVolume where its answer says so.
    Controller,
    /// Only on the node: upstream's trivial resizer, which calls nothing.
    NodeOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abilities {
    pub(super) expansion: Option<Expansion>,
    pub(super) modifies: bool,
}

pub(super) async fn ask(sidecar: &Sidecar, questions: &Effects) -> Result<Abilities, RunError> {
    let identity = &sidecar.identity;
    if !identity.has(Service::ControllerService) {
        return Err(RunError::Refused("CSI driver does not support controller service".into()));
    }
    let expansion = if identity.can(Rpc::ExpandVolume) {
        Some(Expansion::Controller)
    } else {
        let what = "ask the CSI driver whether its nodes can expand volumes";
        let on_node = expands_on_node(sidecar, questions).await;
        on_node.map_err(|source| RunError::Effect { what, source })?.then_some(Expansion::NodeOnly)
    };
    Ok(Abilities { expansion, modifies: identity.can(Rpc::ModifyVolume) })
}

async fn expands_on_node(sidecar: &Sidecar, questions: &Effects) -> Result<bool, EffectError> {
    let (driver, request) = (&sidecar.driver, NodeGetCapabilitiesRequest {});
    let send = |request| async move { driver.node().node_get_capabilities(request).await };
    let (rpc, classes) = ("NodeGetCapabilities", Classes::Default);
    let answer = call(questions, rpc, "driver", sidecar.timeout, classes, request, send).await?;
    let rpcs = answer.capabilities.into_iter().filter_map(|capability| capability.r#type);
    let wanted = NodeRpc::ExpandVolume as i32;
    Ok(rpcs.into_iter().any(|node_service_capability::Type::Rpc(rpc)| rpc.r#type == wanted))
}
