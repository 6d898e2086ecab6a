//! Decision table of the reference (2.9), and edge case 2.15.17.

use std::sync::Arc;

use bowline_api::{CSINode, CSIStorageCapacity, Node, build, keys, quantity_of};
use bowline_machinery::Step;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::decide::{decide, segments};
use super::model::{Action, Key, Measured, Observed, Pair, Segment, Settings};
use super::role::{is_ours, key_of};

const DRIVER: &str = "d.example";

fn owner(uid: &str) -> OwnerReference {
    OwnerReference { kind: "StatefulSet".into(), name: "s".into(), uid: uid.into(), ..Default::default() }
}

fn settings() -> Settings {
    Settings {
        driver: DRIVER.into(),
        managed_by: "external-provisioner".into(),
        namespace: "ns".into(),
        owner: Some(owner("u-owner")),
        immediate: false,
    }
}

fn zone(name: &str) -> Segment {
    [("zone".to_owned(), name.to_owned())].into()
}

fn object(name: &str, second: u32) -> Arc<CSIStorageCapacity> {
    let created = format!("2026-01-01T00:00:{second:02}Z");
    let mut object: CSIStorageCapacity = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created},
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
    }))
    .unwrap();
    let labels = [(keys::CAPACITY_DRIVER, DRIVER), (keys::CAPACITY_MANAGED_BY, "external-provisioner")];
    object.metadata.labels = Some(labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    object.metadata.owner_references = Some(vec![owner("u-owner")]);
    object.capacity = Some(quantity_of(1 << 30));
    Arc::new(object)
}

fn measured(bytes: i64) -> Option<Measured> {
    Some(Measured { bytes, largest_volume: None })
}

fn seen(objects: Vec<Arc<CSIStorageCapacity>>, measured: Option<Measured>) -> Pair {
    Pair {
        settings: Arc::new(settings()),
        class: Some(Arc::new(build::class("fast", DRIVER).wait_for_consumer().build())),
        segment_exists: true,
        objects,
        measured,
    }
}

fn decision(seen: Pair) -> Step<Action, std::convert::Infallible> {
    decide(&Observed::Pair(Box::new(seen)))
}

#[test]
fn every_pair_gets_one_object_with_what_the_driver_says() {
    let there = || vec![object("a", 1)];
    let (gib, none) = (measured(1 << 30), measured(0));
    assert_eq!(decision(seen(vec![], None)), Step::Do(Action::Ask));
    assert_eq!(decision(seen(there(), None)), Step::Do(Action::Ask));
    assert_eq!(decision(seen(vec![], gib)), Step::Do(Action::Create(gib.unwrap())));
    assert_eq!(decision(seen(vec![], none)), Step::Do(Action::Create(none.unwrap())), "zero is published");
    assert_eq!(decision(seen(there(), gib)), Step::Done);
    let Step::Do(Action::Update(object)) = decision(seen(there(), none)) else { panic!() };
    assert_eq!(object.capacity, Some(quantity_of(0)));
    let largest = Some(Measured { bytes: 1 << 30, largest_volume: Some(5) });
    let Step::Do(Action::Update(object)) = decision(seen(there(), largest)) else { panic!() };
    assert_eq!(object.maximum_volume_size, Some(quantity_of(5)));
}

#[test]
fn what_is_not_wanted_is_deleted() {
    let there = || vec![object("a", 1)];
    let gone = Step::Do(Action::Delete(object("a", 1)));
    let class =
        |class: Option<bowline_api::StorageClass>| Pair { class: class.map(Arc::new), ..seen(there(), None) };
    let immediate = || {
        let mut class = build::class("fast", DRIVER).build();
        class.volume_binding_mode = Some("Immediate".into());
        class
    };
    let unsaid = || {
        let mut class = build::class("fast", DRIVER).build();
        class.volume_binding_mode = None;
        class
    };
    assert_eq!(decision(class(None)), gone);
    assert_eq!(decision(class(Some(build::class("fast", "other.example").build()))), gone);
    assert_eq!(decision(class(Some(immediate()))), gone);
    assert_eq!(decision(class(Some(unsaid()))), Step::Do(Action::Ask));
    assert_eq!(decision(Pair { segment_exists: false, ..seen(there(), None) }), gone);
    assert_eq!(decision(Pair { segment_exists: false, ..seen(vec![], None) }), Step::Done);
    let both = Settings { immediate: true, ..settings() };
    let published = Pair { settings: Arc::new(both), ..class(Some(immediate())) };
    assert_eq!(decision(published), Step::Do(Action::Ask));
    assert_eq!(decide(&Observed::Stray(object("a", 1))), gone);
}

#[test]
fn edge_2_15_17_duplicates_go_and_other_owners_and_drivers_are_left_alone() {
    let twice = seen(vec![object("a", 9), object("b", 1)], measured(1 << 30));
    assert_eq!(decision(twice), Step::Do(Action::Delete(object("a", 9))), "the younger one");
    let mut edited = object("a", 1);
    Arc::make_mut(&mut edited).metadata.owner_references = Some(vec![owner("u-other")]);
    let Step::Do(Action::Update(object_now)) = decision(seen(vec![edited], measured(1 << 30))) else {
        panic!()
    };
    let uids: Vec<String> =
        object_now.metadata.owner_references.unwrap().into_iter().map(|o| o.uid).collect();
    assert_eq!(uids, ["u-other", "u-owner"]);
    for (key, value) in
        [(keys::CAPACITY_DRIVER, "other.example"), (keys::CAPACITY_MANAGED_BY, "external-provisioner-n")]
    {
        let mut theirs = object("a", 1);
        Arc::make_mut(&mut theirs).metadata.labels.as_mut().unwrap().insert(key.into(), value.into());
        assert!(!is_ours(&settings(), &theirs), "{key}");
    }
    assert!(is_ours(&settings(), &object("a", 1)));
}

#[test]
fn an_object_stands_for_its_class_and_segment() {
    let pair = |segment| Key::Pair { class: "fast".into(), segment };
    assert_eq!(key_of(&object("a", 1)), pair(zone("a")));
    let mut bare = object("a", 1);
    Arc::make_mut(&mut bare).node_topology = None;
    assert_eq!(key_of(&bare), pair(Segment::new()));
    let mut odd = object("a", 1);
    let selector = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
    Arc::make_mut(&mut odd).node_topology = Some(serde_json::from_value(selector).unwrap());
    assert_eq!(key_of(&odd), Key::Stray("a".into()));
}

#[test]
fn segments_come_from_the_nodes_of_the_driver() {
    let csi_node = |name: &str, driver: &str, keys: &[&str]| -> Arc<CSINode> {
        let drivers = json!([{"name": driver, "nodeID": name, "topologyKeys": keys}]);
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"drivers": drivers}}))
                .unwrap(),
        )
    };
    let node = |name: &str, zone: &str| -> Arc<Node> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"zone": zone}}})).unwrap(),
        )
    };
    let csi_nodes = [
        csi_node("n1", DRIVER, &["zone"]),
        csi_node("n2", DRIVER, &["zone"]),
        csi_node("n3", DRIVER, &["zone", "rack"]),
        csi_node("n4", "other.example", &["zone"]),
        csi_node("n5", DRIVER, &["zone"]),
    ];
    let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", "c")];
    assert_eq!(segments(DRIVER, &csi_nodes, &nodes), [zone("a")].into(), "no label, another driver, no Node");
    let plain = [csi_node("n1", DRIVER, &[])];
    assert_eq!(segments(DRIVER, &plain, &nodes), [Segment::new()].into());
}

#[test]
fn a_changed_topology_is_taken_over() {
    let topology = |known: &[&str], now: &[&str]| {
        let set = |names: &[&str]| names.iter().map(|name| zone(name)).collect();
        decide(&Observed::Topology { known: set(known), now: set(now) })
    };
    assert_eq!(topology(&["a"], &["a"]), Step::Done);
    assert_eq!(topology(&["a"], &["a", "b"]), Step::Do(Action::Adopt));
    assert_eq!(topology(&["a"], &[]), Step::Do(Action::Adopt));
}
