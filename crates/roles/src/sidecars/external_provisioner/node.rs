//! The one node that a provisioner serves (`--node-deployment`).

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_api::{CSINode, Node};
use bowline_machinery::csi::{Classes, Driver, call};
use bowline_machinery::{Ports, Role, RunError};
use bowline_proto::csi::v1::NodeGetInfoRequest;
use k8s_openapi::api::storage::v1::CSINodeDriver;

use super::model::Cluster;
use super::role::Provisioner;

/// Longest value of a label.
const LABEL_MAX: usize = 63;

/// What the driver says of its node.
pub(super) struct Own {
    pub(super) id: String,
    pub(super) segment: BTreeMap<String, String>,
}

pub(super) async fn ask(driver: &Driver, ports: &Ports, timeout: Duration) -> Result<Own, RunError> {
    let questions = ports.questions(Provisioner::NAME);
    let send = |request| async move { driver.node().node_get_info(request).await };
    let (request, classes) = (NodeGetInfoRequest {}, Classes::Default);
    let answer = call(&questions, "NodeGetInfo", "driver", timeout, classes, request, send).await;
    let what = "ask the CSI driver which node it is on";
    let info = answer.map_err(|source| RunError::Effect { what, source })?;
    Ok(Own { id: info.node_id, segment: info.accessible_topology.unwrap_or_default().segments })
}

/// The cluster as this provisioner sees it: its own node, with the driver's word instead of the API server's.
pub(super) fn cluster(driver: &str, node: &str, own: &Own) -> Cluster {
    let entry = CSINodeDriver {
        name: driver.to_owned(),
        node_id: own.id.clone(),
        topology_keys: Some(own.segment.keys().cloned().collect()),
        ..CSINodeDriver::default()
    };
    let mut csi_node = CSINode::default();
    csi_node.metadata.name = Some(node.to_owned());
    csi_node.spec.drivers = vec![entry];
    let mut labelled = Node::default();
    labelled.metadata.name = Some(node.to_owned());
    labelled.metadata.labels = Some(own.segment.clone());
    Cluster { csi_nodes: vec![csi_node.into()], nodes: vec![labelled.into()] }
}

/// Which provisioner writes an object, as a label: all together, or the one of a node.
pub(super) fn managed_by(node: Option<&str>) -> String {
    let base = "external-provisioner";
    match node {
        None => base.to_owned(),
        Some(node) => joined(base, node),
    }
}

/// `base-suffix`; where that is too long, the base is cut and a hash takes the place of what is missing.
fn joined(base: &str, suffix: &str) -> String {
    let whole = format!("{base}-{suffix}");
    if whole.len() <= LABEL_MAX {
        return whole;
    }
    // Two dashes and eight digits.
    match LABEL_MAX.checked_sub(10 + suffix.len()).filter(|length| *length > 0) {
        Some(length) => format!("{}-{:08x}-{suffix}", &base[..length.min(base.len())], fnv1a(base)),
        None => format!("{base}-{:08x}", fnv1a(&whole)),
    }
}

/// 32-bit FNV-1a: xor, then multiply.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_upstreams_and_never_too_long() {
        assert_eq!(managed_by(None), "external-provisioner");
        assert_eq!(managed_by(Some("worker-1")), "external-provisioner-worker-1");
        let long = "n".repeat(43);
        assert_eq!(managed_by(Some(&long)), format!("external-p-53f40b57-{long}"));
        let longer = "n".repeat(60);
        let label = managed_by(Some(&longer));
        assert!(label.starts_with("external-provisioner-") && label.len() == 29, "{label}");
    }
}
