//! The objects of a node as they should be: pure functions of what was seen.

use std::collections::{BTreeMap, BTreeSet};

use bowline_api::{CSINode, Lease, Meta, Node, keys, quantity};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};

use super::machine::Machine;
use super::model::{LEASE_SECONDS, NodeSeen};

/// Labels of this node: those that it was given, and those that every node has.
pub fn labels(seen: &NodeSeen) -> BTreeMap<String, String> {
    let architecture = seen.machine.info.architecture.clone();
    let labels = [
        (keys::HOSTNAME_LABEL, seen.node_name.clone()),
        (keys::OS_LABEL, "linux".into()),
        (keys::ARCH_LABEL, architecture),
    ];
    let own = labels.map(|(key, value)| (key.to_owned(), value));
    seen.labels.clone().into_iter().chain(own).collect()
}

pub fn node(seen: &NodeSeen, in_use: &BTreeSet<String>) -> Node {
    let annotations = BTreeMap::from([(keys::CONTROLLER_MANAGED_ATTACH.to_owned(), "true".to_owned())]);
    let metadata = ObjectMeta {
        name: Some(seen.node_name.clone()),
        labels: Some(labels(seen)),
        annotations: Some(annotations),
        ..Default::default()
    };
    // Only here: later, NodeRestriction lets no node change its taints.
    let taints = (!seen.taints.is_empty()).then(|| seen.taints.clone());
    let in_use = (!in_use.is_empty()).then(|| in_use.iter().cloned().collect());
    let status = in_use.map(|list| NodeStatus { volumes_in_use: Some(list), ..NodeStatus::default() });
    Node { metadata, spec: Some(NodeSpec { taints, ..NodeSpec::default() }), status }
}

fn owner(node: &Node) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.name().into(),
        uid: node.uid().into(),
        ..Default::default()
    }
}

pub fn csi_node(node: &Node) -> CSINode {
    let mut object = CSINode::default();
    object.metadata.name = Some(node.name().into());
    object.metadata.owner_references = Some(vec![owner(node)]);
    object.set_annotation(keys::MIGRATED_PLUGINS, keys::MIGRATED_PLUGIN_NAMES);
    object
}

pub fn lease(node: &Node, now: Timestamp) -> Lease {
    let metadata = ObjectMeta {
        name: Some(node.name().into()),
        namespace: Some(keys::NODE_LEASE_NAMESPACE.into()),
        owner_references: Some(vec![owner(node)]),
        ..Default::default()
    };
    let spec = LeaseSpec {
        holder_identity: Some(node.name().into()),
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..Default::default()
    };
    Lease { metadata, spec: Some(spec) }
}

pub fn resources(machine: &Machine) -> BTreeMap<String, Quantity> {
    let resources = [
        ("cpu", machine.cpus.to_string()),
        ("memory", format!("{}Ki", machine.memory_kib)),
        ("pods", machine.pods_max.to_string()),
    ];
    // In the notation that the server hands back, or the comparison with it would never settle.
    let canonical = |amount: String| Quantity(quantity::canonical(&amount).unwrap_or(amount));
    resources.map(|(name, amount)| (name.to_owned(), canonical(amount))).into()
}

pub fn addresses(seen: &NodeSeen) -> Vec<NodeAddress> {
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.into(), address: address.into() };
    vec![address("InternalIP", &seen.address.to_string()), address("Hostname", &seen.node_name)]
}

/// Where the kubelet answers.
pub fn daemon_endpoints(machine: &Machine) -> Option<NodeDaemonEndpoints> {
    let endpoint = machine.kubelet_port.map(|port| DaemonEndpoint { port: port.into() });
    endpoint.map(|endpoint| NodeDaemonEndpoints { kubelet_endpoint: Some(endpoint) })
}

/// The port in them; 0 is how others say that there is none.
pub fn kubelet_port(endpoints: Option<&NodeDaemonEndpoints>) -> Option<u16> {
    let port = endpoints?.kubelet_endpoint.as_ref()?.port;
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// Conditions with upstream's reasons and texts. A condition that is as it was keeps its transition time.
pub fn conditions(seen: &NodeSeen, have: &[NodeCondition]) -> Vec<NodeCondition> {
    let ready = match (seen.stopping, &seen.csi_node) {
        (true, _) => ("Ready", "False", "KubeletNotReady", "node is shutting down"),
        (false, None) => ("Ready", "False", "KubeletNotReady", "CSINode is not yet initialized"),
        (false, Some(_)) => ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    };
    let all = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ready,
    ];
    let now = Some(Time(seen.now));
    let condition = |(type_, status, reason, message): (&str, &str, &str, &str)| {
        let same = have.iter().find(|c| c.type_ == type_ && c.status == status);
        NodeCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_heartbeat_time: now.clone(),
            last_transition_time: same.map_or(now.clone(), |c| c.last_transition_time.clone()),
        }
    };
    all.into_iter().map(condition).collect()
}
