//! A provisioner on each node (2.8).

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, build, keys};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use serde_json::json;

use super::super::decide::decide;
use super::super::intent;
use super::super::model::{Action, Bidding, Claim, Observed, OwnNode, Settings, Volume, Why};
use super::super::node::{Own, cluster};
use super::claims::{creation, decision, seen};
use super::{DRIVER, settings, shared};

const NODE: &str = "worker-1";

fn segment() -> BTreeMap<String, String> {
    [("node".to_owned(), NODE.to_owned())].into()
}

fn own() -> Option<OwnNode> {
    Some(OwnNode { name: NODE.into(), segment: segment(), immediate_binding: true })
}

/// A claim of a class that says itself that it binds immediately, seen from one node.
fn here() -> Claim {
    let mut class = build::class("fast", DRIVER).build();
    class.volume_binding_mode = Some("Immediate".into());
    let own_node = Own { id: "id-1".into(), segment: segment() };
    let seen = seen().class(class).settings(|s| (s.topology, s.node) = (true, own()));
    Claim { cluster: cluster(DRIVER, NODE, &own_node), ..seen }
}

fn bidding(bidding: Bidding) -> Claim {
    let mut seen = here();
    seen.attempt.bidding = bidding;
    seen
}

fn on(node: &str) -> Claim {
    here().claim(|claim| claim.set_annotation(keys::SELECTED_NODE, node))
}

#[test]
fn only_claims_of_the_own_node_are_provisioned() {
    let requirement = creation(&on(NODE)).unwrap().request.accessibility_requirements.unwrap();
    assert_eq!(requirement.requisite[0].segments, segment());
    assert_eq!(decision(&on("worker-2")), Step::Done);
}

#[test]
fn a_claim_without_a_node_is_asked_for_after_a_delay_and_if_there_is_room() {
    assert_eq!(decision(&here()), Step::Wait(Why::Bidding));
    let Step::Do(Action::AskRoom { requests, needed }) = decision(&bidding(Bidding::Due)) else { panic!() };
    assert_eq!((requests.len(), needed), (1, 1 << 30));
    assert_eq!(requests[0].accessible_topology.as_ref().unwrap().segments, segment());
    assert!(!requests[0].volume_capabilities.is_empty());
    assert_eq!(decision(&bidding(Bidding::Room)), Step::Do(Action::SelectNode(NODE.into())));
}

#[test]
fn claims_that_are_not_to_be_asked_for() {
    let class = |change: fn(&mut bowline_api::StorageClass)| {
        let mut seen = bidding(Bidding::Room);
        change(Arc::make_mut(seen.class.as_mut().unwrap()));
        decision(&seen)
    };
    let waits = || Step::Wait(Why::NoNodeSelected);
    assert_eq!(class(|class| class.volume_binding_mode = None), waits(), "it must say so itself");
    assert_eq!(class(|class| class.volume_binding_mode = Some("WaitForFirstConsumer".into())), waits());
    let elsewhere = |class: &mut bowline_api::StorageClass| {
        let place = TopologySelectorLabelRequirement { key: "node".into(), values: vec!["worker-2".into()] };
        let term = TopologySelectorTerm { match_label_expressions: Some(vec![place]) };
        class.allowed_topologies = Some(vec![term]);
    };
    assert_eq!(class(elsewhere), Step::Wait(Why::NotHere));
    let off = bidding(Bidding::Room).settings(|s| s.node.as_mut().unwrap().immediate_binding = false);
    assert_eq!(decision(&off), waits());
}

#[test]
fn what_is_wrong_with_a_claim_is_told_by_the_node_that_has_it() {
    let wrong = bidding(Bidding::Due).claim(|c| c.spec.as_mut().unwrap().selector = Some(Default::default()));
    assert_eq!(decision(&wrong), Step::Do(Action::SelectNode(NODE.into())));
}

#[test]
fn volumes_of_other_nodes_are_not_deleted() {
    let volume = |node: &str| -> Arc<PersistentVolume> {
        let place = json!([{"matchExpressions": [{"key": "node", "operator": "In", "values": [node]}]}]);
        let object = json!({
            "metadata": {"name": "pv", "finalizers": [keys::PROVISIONER_FINALIZER]},
            "spec": {
                "csi": {"driver": DRIVER, "volumeHandle": "v"},
                "persistentVolumeReclaimPolicy": "Delete",
                "nodeAffinity": {"required": {"nodeSelectorTerms": place}},
            },
            "status": {"phase": "Released"},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    };
    let decision = |node| {
        let settings = shared(Settings { node: own(), ..settings() });
        let seen = Volume { settings, object: volume(node), class: None, attached_to: None, deleted: false };
        decide(&Observed::Volume(Box::new(seen)))
    };
    assert!(matches!(decision(NODE), Step::Do(Action::Delete { .. })));
    assert_eq!(decision("worker-2"), Step::Done);
}

/// Each driver knows only its own node's volumes (PROV-1).
#[test]
fn a_stored_call_is_finished_by_the_provisioner_of_its_node_alone() {
    let on_node = |name: &str| {
        let node = own().map(|own| OwnNode { name: name.into(), ..own });
        Settings { node, ..settings() }
    };
    let Step::Do(Action::Store(stored)) = decision(&on(NODE)) else { panic!() };
    let lease = intent::lease(&on_node(NODE), "ns", &stored).unwrap();
    assert!(intent::stored(&on_node(NODE), lease.clone()).is_ok());
    assert!(intent::stored(&on_node("worker-2"), lease.clone()).is_err());
    assert!(intent::stored(&settings(), lease).is_err());
    assert!(
        intent::selector(&on_node(NODE))
            .ends_with(",csi.storage.k8s.io/managed-by=external-provisioner-worker-1")
    );
}
