//! What to write about this node next.

use std::collections::BTreeSet;

use bowline_api::{CSINode, Lease, Meta, Node, keys, node};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus, Taint};
use serde_json::{Value, json};

use super::object;
use super::world::{Action, HEARTBEAT, LEASE_RENEWAL, Observed, Step};

/// `volumesInUse` goes before everything that does not hold up a mount.
pub fn decide(seen: &Observed) -> Step {
    let Some(node) = &seen.node else {
        return if seen.stopping {
            Step::Done
        } else {
            Step::Do(Action::Register(Box::new(object::node(seen))))
        };
    };
    let next = in_use(seen, node).or_else(|| status(seen, node));
    let next = if seen.stopping { next } else { next.or_else(|| calm(seen, node)) };
    next.map_or(Step::Done, Step::Do)
}

fn calm(seen: &Observed, node: &Node) -> Option<Action> {
    csi_node(seen.csi_node.as_ref(), node)
        .or_else(|| metadata(seen, node))
        .or_else(|| taints(node))
        .or_else(|| lease(seen, node))
}

fn in_use(seen: &Observed, node: &Node) -> Option<Action> {
    let (wanted, accepted) = seen.in_use.as_ref()?;
    let published: BTreeSet<String> = node::volumes_in_use(node).iter().cloned().collect();
    if published != *wanted {
        return Some(Action::PublishInUse(wanted.clone()));
    }
    (accepted != wanted).then(|| Action::AcceptInUse(wanted.clone()))
}

/// A CSINode of an earlier node with the same name would be collected as garbage under our feet.
fn csi_node(have: Option<&CSINode>, node: &Node) -> Option<Action> {
    match have {
        None => Some(Action::CreateCsiNode(object::csi_node(node))),
        Some(have) => {
            let owners = have.meta().owner_references.as_deref().unwrap_or_default();
            let foreign = owners.iter().any(|o| o.kind == "Node" && o.uid != node.uid());
            (foreign && !have.deleting()).then(|| Action::DeleteCsiNode(have.clone()))
        }
    }
}

fn metadata(seen: &Observed, node: &Node) -> Option<Action> {
    let labels = object::labels(seen);
    let labelled = labels.iter().all(|(key, value)| node.label(key) == Some(value));
    let managed = node.annotation(keys::CONTROLLER_MANAGED_ATTACH) == Some("true");
    let annotations = json!({keys::CONTROLLER_MANAGED_ATTACH: "true"});
    let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
    (!labelled || !managed).then_some(Action::PatchNode(patch))
}

/// Upstream's node lifecycle controller does this when the node becomes Ready; here the node itself does.
fn taints(node: &Node) -> Option<Action> {
    let taints = node::taints(node);
    let stale = |taint: &&Taint| taint.key == keys::TAINT_NOT_READY || taint.key == keys::TAINT_UNREACHABLE;
    if !node::ready(node) || !taints.iter().any(|t| stale(&t)) {
        return None;
    }
    Some(Action::SetTaints(taints.iter().filter(|t| !stale(t)).cloned().collect()))
}

fn lease(seen: &Observed, node: &Node) -> Option<Action> {
    if !seen.lease_namespace {
        return Some(Action::CreateNamespace(object::lease_namespace()));
    }
    let fresh = object::lease(node, seen.now);
    let Some(have) = &seen.lease else { return Some(Action::CreateLease(fresh)) };
    let renewed = have.spec.as_ref().and_then(|s| s.renew_time.as_ref()).map(|t| t.0);
    let due = renewed.is_none_or(|at| older(at, LEASE_RENEWAL.as_secs(), seen.now));
    due.then(|| Action::RenewLease(Lease { metadata: have.metadata.clone(), spec: fresh.spec }))
}

/// Written when something in it changed, and otherwise as a rare heartbeat.
fn status(seen: &Observed, node: &Node) -> Option<Action> {
    let none = NodeStatus::default();
    let have = node.status.as_ref().unwrap_or(&none);
    let known = have.conditions.as_deref().unwrap_or_default();
    let conditions = object::conditions(seen, known);
    let resources = Some(object::resources(&seen.machine));
    let addresses = Some(object::addresses(&seen.node_name));
    let same = have.capacity == resources
        && have.allocatable == resources
        && have.addresses == addresses
        && have.node_info.as_ref() == Some(&seen.machine.info)
        && object::kubelet_port(have.daemon_endpoints.as_ref()) == seen.machine.kubelet_port
        && conditions.iter().all(|want| known.iter().any(|have| alike(want, have)));
    if same && (seen.stopping || !heartbeat_due(known, seen.now)) {
        return None;
    }
    Some(Action::PatchStatus(patch(seen, &conditions)))
}

fn patch(seen: &Observed, conditions: &[NodeCondition]) -> Value {
    let resources = object::resources(&seen.machine);
    json!({"status": {
        "daemonEndpoints": object::daemon_endpoints(&seen.machine),
        "capacity": resources,
        "allocatable": resources,
        "addresses": object::addresses(&seen.node_name),
        "nodeInfo": seen.machine.info,
        "conditions": conditions,
    }})
}

fn alike(a: &NodeCondition, b: &NodeCondition) -> bool {
    (&a.type_, &a.status, &a.reason, &a.message) == (&b.type_, &b.status, &b.reason, &b.message)
}

fn heartbeat_due(conditions: &[NodeCondition], now: Timestamp) -> bool {
    let ready = conditions.iter().find(|c| c.type_ == "Ready");
    let last = ready.and_then(|c| c.last_heartbeat_time.as_ref());
    last.is_none_or(|at| older(at.0, HEARTBEAT.as_secs(), now))
}

fn older(at: Timestamp, seconds: u64, now: Timestamp) -> bool {
    now.duration_since(at).as_secs() >= i64::try_from(seconds).unwrap_or(i64::MAX)
}
