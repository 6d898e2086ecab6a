//! Node: a machine that runs pods.

use std::collections::BTreeSet;

use bowline_api::{Meta, Node, keys, node};
use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use serde_json::Value;

use super::check::{addresses, go, names, quantities};
use super::{Column, Names, Rules, age, column};
use crate::field::{Invalid, Reason};

pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Status", "Whether the node is ready and takes pods."),
    column::text("Roles", "Roles, from the node's labels."),
    column::AGE,
    column::text("Version", "Version of the kubelet."),
    column::wide(column::text("Internal-IP", "Address inside the cluster.")),
    column::wide(column::text("External-IP", "Address from outside.")),
    column::wide(column::text("OS-Image", "Operating system.")),
    column::wide(column::text("Kernel-Version", "Kernel and architecture.")),
    column::wide(column::text("Container-Runtime", "Container runtime and its version.")),
];

pub struct NodeRules;

impl Rules for NodeRules {
    type Object = Node;
    const NAMES: Names = Names { plural: "nodes", singular: "node", short: &["no"], categories: &[] };
    const NAMESPACED: bool = false;
    const STATUS: bool = true;
    const FIELD_LABELS: &'static [&'static str] = &["spec.unschedulable"];

    fn default_fields(node: &mut Node) {
        node.spec.iter_mut().for_each(mirror_range);
        let Some(status) = &mut node.status else { return };
        if status.allocatable.is_none() {
            status.allocatable = status.capacity.clone();
        }
    }

    /// Unlike other kinds a node keeps the status it came with. It takes no pods until somebody says it is ready.
    fn prepare_create(node: &mut Node, _now: jiff::Timestamp) {
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        if !taints.iter().any(|t| t.key == keys::TAINT_NOT_READY && t.effect == "NoSchedule") {
            let (key, effect) = (keys::TAINT_NOT_READY.into(), "NoSchedule".into());
            taints.push(Taint { key, effect, ..Default::default() });
        }
    }

    fn prepare_update(new: &mut Node, old: &Node) {
        new.status = old.status.clone();
    }

    fn prepare_status(new: &mut Node, old: &Node, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(node: &Node) -> Vec<Invalid> {
        let mut errors = taint_errors(node::taints(node));
        errors.extend(resource_errors(node));
        errors.extend(node.spec.as_ref().map(range_errors).unwrap_or_default());
        errors
    }

    fn validate_update(new: &Node, old: &Node) -> Vec<Invalid> {
        update_errors(new, old)
    }

    fn validate_status(new: &Node, old: &Node) -> Vec<Invalid> {
        let mut errors = resource_errors(new);
        errors.extend(update_errors(new, old));
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(node: &Node, now: jiff::Timestamp) -> Vec<Value> {
        let info = node.status.as_ref().and_then(|s| s.node_info.clone()).unwrap_or_default();
        let (kernel, known) = (kernel(&info), |text: &str| Value::from(or(text, "<unknown>")));
        vec![
            node.name().into(),
            shown_status(node).into(),
            roles(node).into(),
            age::age(&node.metadata, now).into(),
            info.kubelet_version.as_str().into(),
            address(node, "InternalIP").into(),
            address(node, "ExternalIP").into(),
            known(&info.os_image),
            kernel.into(),
            known(&info.container_runtime_version),
        ]
    }

    fn field_labels(node: &Node) -> Vec<(&'static str, String)> {
        vec![("spec.unschedulable", unschedulable(node).to_string())]
    }
}

/// One range has an old field beside the list; the old field wins when both are set.
fn mirror_range(spec: &mut NodeSpec) {
    let first = spec.pod_cidrs.as_ref().and_then(|ranges| ranges.first().cloned());
    match spec.pod_cidr.clone().filter(|range| !range.is_empty()) {
        Some(range) if first.as_ref() != Some(&range) => spec.pod_cidrs = Some(vec![range]),
        Some(_) => {}
        None => spec.pod_cidr = first,
    }
}

/// Ranges of addresses, at most one of each family.
fn range_errors(spec: &NodeSpec) -> Vec<Invalid> {
    let at = "spec.podCIDRs";
    let ranges = spec.pod_cidrs.as_deref().unwrap_or_default();
    let each = |(index, range): (usize, &String)| addresses::cidr(&format!("{at}[{index}]"), range);
    let mut errors: Vec<Invalid> = ranges.iter().enumerate().filter_map(each).collect();
    let families = ranges.iter().map(|range| range.contains(':')).collect::<BTreeSet<_>>();
    if ranges.len() > families.len() && errors.is_empty() {
        let text = "may specify no more than one CIDR for each IP family";
        errors.push(Invalid::invalid(at, ranges.to_vec(), text));
    }
    errors
}

fn unschedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false)
}

/// Upstream reports taints below `metadata`.
fn taint_errors(taints: &[Taint]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        let at = format!("metadata.taints[{index}]");
        errors.extend(names::qualified(&format!("{at}.key"), &taint.key));
        errors.extend(names::label_value(&format!("{at}.value"), taint.value.as_deref().unwrap_or_default()));
        let effect = Some(taint.effect.as_str());
        errors.extend(super::check::required_one_of(&format!("{at}.effect"), effect, &EFFECTS));
        let twin = |earlier: &Taint| earlier.key == taint.key && earlier.effect == taint.effect;
        if taints[..index].iter().any(twin) {
            let text = "taints must be unique by key and effect pair";
            errors.push(go::shown(Reason::Duplicate, &at, "core.v1.Taint", taint, text));
        }
    }
    errors
}

fn resource_errors(node: &Node) -> Vec<Invalid> {
    let status = node.status.as_ref();
    let lists = [
        ("capacity", status.and_then(|s| s.capacity.as_ref())),
        ("allocatable", status.and_then(|s| s.allocatable.as_ref())),
    ];
    let each = |(list, amounts): (&str, Option<&quantities::Resources>)| -> Vec<Invalid> {
        let at = |name: &str| format!("status.{list}.{name}");
        let amounts = amounts.into_iter().flatten();
        amounts.filter_map(|(name, amount)| quantities::non_negative(&at(name), amount)).collect()
    };
    lists.into_iter().flat_map(each).collect()
}

fn update_errors(new: &Node, old: &Node) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let addresses = new.status.as_ref().and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    for (index, address) in addresses.iter().enumerate() {
        if addresses[..index].contains(address) {
            let at = format!("status.addresses[{index}]");
            errors.push(go::shown(Reason::Duplicate, &at, "core.v1.NodeAddress", address, ""));
        }
    }
    let (before, after) = (old.spec.clone().unwrap_or_default(), new.spec.clone().unwrap_or_default());
    let ranges = before.pod_cidrs.unwrap_or_default();
    if !ranges.is_empty() && ranges != after.pod_cidrs.unwrap_or_default() {
        let text = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Invalid::forbidden("spec.podCIDRs", text));
    }
    let provider = before.provider_id.unwrap_or_default();
    if !provider.is_empty() && provider != after.provider_id.unwrap_or_default() {
        let text = "node updates may not change providerID except from \"\" to valid";
        errors.push(Invalid::forbidden("spec.providerID", text));
    }
    if before.external_id != after.external_id {
        errors.push(Invalid::forbidden("spec.externalID", "may not be updated"));
    }
    errors
}

fn or(text: &str, instead: &str) -> String {
    if text.is_empty() { instead.to_owned() } else { text.to_owned() }
}

fn shown_status(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|s: &NodeStatus| s.conditions.as_deref());
    let ready = conditions.unwrap_or_default().iter().rfind(|c| c.type_ == "Ready");
    let status = match ready {
        Some(condition) if condition.status == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let disabled = if unschedulable(node) { ",SchedulingDisabled" } else { "" };
    format!("{status}{disabled}")
}

fn roles(node: &Node) -> String {
    let role = |(key, value): (&String, &String)| match key.strip_prefix(keys::NODE_ROLE_PREFIX) {
        Some(role) => (!role.is_empty()).then(|| role.to_owned()),
        None => (key == keys::NODE_ROLE && !value.is_empty()).then(|| value.clone()),
    };
    let mut roles: Vec<String> = node.metadata.labels.iter().flatten().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    or(&roles.join(","), "<none>")
}

fn address(node: &Node, kind: &str) -> String {
    let addresses = node.status.as_ref().and_then(|s| s.addresses.as_deref()).unwrap_or_default();
    let found = addresses.iter().find(|address| address.type_ == kind);
    found.map_or("<none>", |address| address.address.as_str()).to_owned()
}

fn kernel(info: &NodeSystemInfo) -> String {
    let version = or(&info.kernel_version, "<unknown>");
    if info.architecture.is_empty() { version } else { format!("{version} ({})", info.architecture) }
}
