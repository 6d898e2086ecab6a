//! What to do about a registration socket, and about a driver that has left.

use std::collections::BTreeMap;

use bowline_api::{CSINode, Meta, Node, keys};
use k8s_openapi::api::storage::v1::{CSINodeDriver, VolumeNodeResources};

use super::model::{Action, DepartedSeen, Facts, Info, Observed, Plugin, Progress, SocketSeen, Step, Why};
use super::version::{self, Version};

/// The only type of plugin that has a handler here.
const CSI_PLUGIN_TYPE: &str = "CSIPlugin";

pub fn decide(seen: &Observed) -> Step {
    match seen {
        Observed::Socket(seen) => socket(seen),
        Observed::Departed(seen) => departed(seen),
    }
}

/// The old registration goes before the new one starts (reference kube-core.md 5.3).
fn socket(seen: &SocketSeen) -> Step {
    match (seen.generation, &seen.plugin) {
        (None, None) => Step::Done,
        (None, Some(_)) => Step::Do(Action::Withdraw),
        (Some(_), None) => Step::Do(Action::GetInfo),
        (Some(generation), Some(plugin)) if plugin.generation != generation => Step::Do(Action::Withdraw),
        (Some(_), Some(plugin)) => register(plugin, seen),
    }
}

fn register(plugin: &Plugin, seen: &SocketSeen) -> Step {
    match &plugin.progress {
        Progress::Registered(_) if seen.refresh_at.is_some_and(|at| at <= seen.now) => {
            Step::Do(Action::Refresh)
        }
        Progress::Registered(facts) => match (&seen.node, &seen.csi_node) {
            (Some(node), Some(csi_node)) => keep(&plugin.info.name, facts, node, csi_node),
            _ => Step::Wait(Why::NodeNotInitialised),
        },
        Progress::Rejected(text) => Step::Do(Action::Refuse(text.clone())),
        Progress::Introduced => match validate(&plugin.info, seen.rival.as_ref()) {
            Ok(()) => Step::Do(Action::AskDriver),
            Err(text) => Step::Do(Action::Refuse(text)),
        },
        Progress::Answered(facts) => match (&seen.node, &seen.csi_node) {
            (Some(node), Some(csi_node)) => announce(&plugin.info.name, facts, node, csi_node),
            _ => Step::Wait(Why::NodeNotInitialised),
        },
    }
}

/// Reference kube-core.md 5.3 and 5.4, with upstream's texts.
fn validate(info: &Info, rival: Option<&Version>) -> Result<(), String> {
    let Info { kind, name, endpoint, versions } = info;
    if kind != CSI_PLUGIN_TYPE {
        return Err(format!(
            "RegisterPlugin error -- no handler registered for plugin type: {kind} at socket {}",
            endpoint.display()
        ));
    }
    let failed = |why: String| {
        format!(
            "RegisterPlugin error -- plugin validation failed with err: kubernetes.io/csi: ValidatePlugin for CSI driver {name:?} failed. {why}"
        )
    };
    if versions.is_empty() {
        return Err(failed("Plugin returned an empty list for supported versions".into()));
    }
    let unsupported =
        |why| failed(format!("None of the versions specified {versions:?} are supported. err={why}"));
    let highest = version::highest(versions).map_err(unsupported)?;
    match rival {
        Some(rival) if *rival >= highest => Err(failed(format!(
            "Another driver with the same name is already registered with a higher supported version: {:?}",
            rival.to_string()
        ))),
        _ => Ok(()),
    }
}

/// Node first, then CSINode, then the table (reference kube-core.md 5.5).
fn announce(driver: &str, facts: &Facts, node: &Node, csi_node: &CSINode) -> Step {
    let refuse = |why: String| {
        let text = format!("RegisterPlugin error -- plugin registration failed with err: {why}");
        Step::Do(Action::Refuse(text))
    };
    if facts.node_id.is_empty() {
        return refuse(format!("kubernetes.io/csi: CSI driver {driver:?} returned an empty node ID"));
    }
    let collision = facts.topology.iter().find(|(key, value)| node.label(key).is_some_and(|v| v != *value));
    if let Some((key, value)) = collision {
        let existing = node.label(key).unwrap_or_default();
        return refuse(format!(
            "detected topology value collision: driver reported \"{key}\":\"{value}\" but existing label is \"{key}\":\"{existing}\""
        ));
    }
    write(driver, facts, node, csi_node).map_or_else(|| Step::Do(Action::Confirm(facts.clone())), Step::Do)
}

/// Node or CSINode may be deleted and come back empty: the driver is written into them again. A label that a person set
/// to another value stays as it is.
fn keep(driver: &str, facts: &Facts, node: &Node, csi_node: &CSINode) -> Step {
    write(driver, facts, node, csi_node).map_or(Step::Done, Step::Do)
}

/// What the API does not say of the driver yet.
fn write(driver: &str, facts: &Facts, node: &Node, csi_node: &CSINode) -> Option<Action> {
    let mut ids = node_ids(node);
    let described = ids.insert(driver.into(), facts.node_id.clone()).as_ref() == Some(&facts.node_id);
    let missing = facts.topology.iter().filter(|(key, _)| node.label(key).is_none());
    let labels: BTreeMap<String, String> = missing.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !described || !labels.is_empty() {
        return Some(Action::DescribeNode { annotation: encode(&ids), labels });
    }
    entry(driver, facts, csi_node).map(|changed| Action::WriteCsiNode(Box::new(changed)))
}

/// The CSINode with the driver's entry as it should be; `None` when it is so already.
fn entry(driver: &str, facts: &Facts, csi_node: &CSINode) -> Option<CSINode> {
    let count = u64::try_from(facts.volumes_max).ok().filter(|n| *n > 0);
    let count = count.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
    let topology_keys: Vec<String> = facts.topology.keys().cloned().collect();
    let wanted = CSINodeDriver {
        name: driver.into(),
        node_id: facts.node_id.clone(),
        topology_keys: (!topology_keys.is_empty()).then_some(topology_keys),
        allocatable: count.map(|count| VolumeNodeResources { count: Some(count) }),
    };
    let have = csi_node.spec.drivers.iter().find(|d| d.name == driver);
    let empty_as_none = |d: &CSINodeDriver| CSINodeDriver {
        topology_keys: d.topology_keys.clone().filter(|keys| !keys.is_empty()),
        ..d.clone()
    };
    if have.map(empty_as_none).as_ref() == Some(&wanted) {
        return None;
    }
    let mut changed = without(driver, csi_node);
    // Only the attach limit of an entry may change; anything else takes a removal first.
    let replaceable = have.is_none_or(|d| {
        d.node_id == wanted.node_id && empty_as_none(d).topology_keys == wanted.topology_keys
    });
    if replaceable {
        changed.spec.drivers.push(wanted);
    }
    Some(changed)
}

/// Topology labels stay: pods and volumes may have been placed by them.
fn departed(seen: &DepartedSeen) -> Step {
    let Some(linger) = seen.linger else { return Step::Done };
    if seen.back {
        return Step::Do(Action::Forget);
    }
    if !linger.is_zero() {
        return Step::Wait(Why::Lingering(linger));
    }
    let driver = &seen.driver;
    if let Some(csi_node) = &seen.csi_node
        && csi_node.spec.drivers.iter().any(|d| d.name == *driver)
    {
        return Step::Do(Action::WriteCsiNode(Box::new(without(driver, csi_node))));
    }
    if let Some(node) = &seen.node {
        let mut ids = node_ids(node);
        if ids.remove(driver).is_some() {
            let labels = BTreeMap::new();
            return Step::Do(Action::DescribeNode { annotation: encode(&ids), labels });
        }
    }
    Step::Do(Action::Forget)
}

fn without(driver: &str, csi_node: &CSINode) -> CSINode {
    let mut changed = csi_node.clone();
    changed.spec.drivers.retain(|d| d.name != driver);
    changed
}

/// An annotation that cannot be read counts as empty: it is ours and is written whole.
fn node_ids(node: &Node) -> BTreeMap<String, String> {
    let text = node.annotation(keys::CSI_NODE_ID).unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_default()
}

fn encode(ids: &BTreeMap<String, String>) -> String {
    serde_json::to_string(ids).unwrap_or_default()
}
