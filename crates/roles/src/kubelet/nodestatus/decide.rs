//! What to write about this node next.

use std::collections::{BTreeMap, BTreeSet};

use bowline_api::{CSINode, Lease, Meta, Node, keys, node};
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::model::{Action, HEARTBEAT, LEASE_RENEWAL, LeaseSeen, NodeSeen, Observed, Step, Why};
use super::object;

pub fn decide(seen: &Observed) -> Step {
    match seen {
        Observed::Node(seen) => on_node(seen),
        Observed::Lease(seen) => on_lease(seen),
    }
}

/// `volumesInUse` goes before everything that does not hold up a mount.
fn on_node(seen: &NodeSeen) -> Step {
    let Some(node) = &seen.node else {
        // ATT-3: a new object that lacks what is mounted here would let it be detached.
        return match &seen.in_use {
            _ if seen.stopping || !seen.register => Step::Done,
            None => Step::Wait(Why::MountsUnknown),
            Some((wanted, _)) => Step::Do(Action::Register(Box::new(object::node(seen, wanted)))),
        };
    };
    let next = in_use(seen, node).or_else(|| status(seen, node));
    let calm = || csi_node(seen.csi_node.as_ref(), node).or_else(|| metadata(seen, node));
    let next = if seen.stopping { next } else { next.or_else(calm) };
    next.map_or(Step::Done, Step::Do)
}

/// Whether it is due is counted since our own last renewal: the time that stands in it may come from a clock that was wrong.
fn on_lease(seen: &LeaseSeen) -> Step {
    let Some(node) = &seen.node else { return Step::Wait(Why::Unregistered) };
    let fresh = object::lease(node, seen.now);
    match &seen.lease {
        None => Step::Do(Action::CreateLease(fresh)),
        Some(_) if seen.age.is_some_and(|age| age < LEASE_RENEWAL) => Step::Done,
        Some(have) => {
            let renewed = Lease { metadata: have.metadata.clone(), spec: fresh.spec };
            Step::Do(Action::RenewLease(renewed))
        }
    }
}

fn in_use(seen: &NodeSeen, node: &Node) -> Option<Action> {
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

fn metadata(seen: &NodeSeen, node: &Node) -> Option<Action> {
    let labels = object::labels(seen);
    let labelled = labels.iter().all(|(key, value)| node.label(key) == Some(value));
    let managed = node.annotation(keys::CONTROLLER_MANAGED_ATTACH) == Some("true");
    let annotations = json!({keys::CONTROLLER_MANAGED_ATTACH: "true"});
    let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
    (!labelled || !managed).then_some(Action::PatchNode(patch))
}

/// Written when something in it changed, and otherwise as a rare heartbeat.
fn status(seen: &NodeSeen, node: &Node) -> Option<Action> {
    let none = NodeStatus::default();
    let have = node.status.as_ref().unwrap_or(&none);
    let known = have.conditions.as_deref().unwrap_or_default();
    let conditions = object::conditions(seen, known);
    let resources = object::resources(&seen.machine);
    // What others added, such as extended resources, stays.
    let has = |have: &Option<BTreeMap<String, Quantity>>| {
        resources.iter().all(|(name, amount)| have.as_ref().is_some_and(|h| h.get(name) == Some(amount)))
    };
    let addresses = Some(object::addresses(seen));
    let same = has(&have.capacity)
        && has(&have.allocatable)
        && have.addresses == addresses
        && have.node_info.as_ref() == Some(&seen.machine.info)
        && object::kubelet_port(have.daemon_endpoints.as_ref()) == seen.machine.kubelet_port
        && conditions.iter().all(|want| known.iter().any(|have| alike(want, have)));
    let beaten = seen.status_age.is_some_and(|age| age < HEARTBEAT);
    if same && (seen.stopping || beaten) {
        return None;
    }
    Some(Action::PatchStatus(patch(seen, &conditions)))
}

fn patch(seen: &NodeSeen, conditions: &[NodeCondition]) -> Value {
    let resources = object::resources(&seen.machine);
    json!({"status": {
        "daemonEndpoints": object::daemon_endpoints(&seen.machine),
        "capacity": resources,
        "allocatable": resources,
        "addresses": object::addresses(seen),
        "nodeInfo": seen.machine.info,
        "conditions": conditions,
    }})
}

fn alike(a: &NodeCondition, b: &NodeCondition) -> bool {
    (&a.type_, &a.status, &a.reason, &a.message) == (&b.type_, &b.status, &b.reason, &b.message)
}
