//! Volumes on a node (2.3, 2.4, 9.4).

use bowline_api::CSIStorageCapacity;
use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::*;

const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
const NOTHING: &str = "node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "node(s) did not have enough free storage";
const MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

fn with(claim: ClaimSeen) -> Observed {
    pod().on([node("n")]).using([claim])
}

fn allowing(terms: Vec<Vec<(&str, &str)>>) -> StorageClass {
    let term = |wanted: Vec<(&str, &str)>| {
        let label = |(key, value): (&str, &str)| TopologySelectorLabelRequirement {
            key: key.into(),
            values: vec![value.into()],
        };
        TopologySelectorTerm { match_label_expressions: Some(wanted.into_iter().map(label).collect()) }
    };
    let mut class = wffc();
    class.allowed_topologies = Some(terms.into_iter().map(term).collect());
    class
}

#[test]
fn bound_claims() {
    let mut missing = claim("c").bound(volume("v"));
    missing.volume = None;
    let both = pod().on([node("n")]).using([claim("a").bound(volume_on("v", "m")), claim("b").selected("m")]);
    check([
        ("in reach", with(claim("c").bound(volume_on("v", "n"))), bind("n")),
        ("out of reach", with(claim("c").bound(volume_on("v", "m"))), refused_by_one(OUT_OF_REACH)),
        ("no volume", with(missing), refused_by_one(MISSING)),
        (
            "only one node reaches it",
            pod().on([node("m"), node("n").load(5)]).using([claim("c").bound(volume_on("v", "n"))]),
            bind("n"),
        ),
        (
            "all reasons of a node count",
            both.on([node("m").changed(|n| n.spec.get_or_insert_default().unschedulable = Some(true))]),
            refused(&format!(
                "0/2 nodes are available: 1 {NOTHING}, 1 {OUT_OF_REACH}, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
            )),
        ),
    ]);
}

#[test]
fn claims_that_wait_for_a_consumer() {
    let no_provisioner = || build::class("late", keys::NO_PROVISIONER).wait_for_consumer().build();
    check([
        ("to be made here", with(claim("c")), select("c", "n")),
        ("node chosen", with(claim("c").selected("n")), waits_on("n")),
        (
            "made, not bound yet",
            with(claim("c").selected("n").near([reserved_for(volume("v"), "c")])),
            waits_on("n"),
        ),
        (
            "chosen elsewhere",
            pod().on([node("n"), node("m").load(7)]).using([claim("c").selected("m")]),
            waits_on("m"),
        ),
        ("a volume is there", with(claim("c").near([volume("v")])), reserve("c", "v")),
        ("out of its reach", with(claim("c").near([volume_on("v", "m")])), select("c", "n")),
        ("reserved", with(claim("c").near([reserved_for(volume("v"), "c")])), waits_on("n")),
        (
            "reserved out of reach: the binder will take it, so nothing else can be had",
            with(claim("c").near([reserved_for(volume_on("v", "m"), "c"), volume("w")])),
            refused_by_one(NOTHING),
        ),
        ("static only, none there", with(claim("c").class(no_provisioner())), refused_by_one(NOTHING)),
        (
            "static only, one on another node",
            pod()
                .on([node("m").load(3), node("n")])
                .using([claim("c").class(no_provisioner()).near([volume_on("v", "m")])]),
            reserve("c", "v"),
        ),
        ("topology allowed", with(claim("c").class(allowing(vec![vec![("zone", "z")]]))), select("c", "n")),
        (
            "topology not allowed",
            with(claim("c").class(allowing(vec![vec![("zone", "y")], vec![("zone", "z"), ("rack", "1")]]))),
            refused_by_one(NOTHING),
        ),
        ("no term allows all", with(claim("c").class(allowing(vec![]))), select("c", "n")),
        (
            "an empty term allows none",
            with(claim("c").class(allowing(vec![vec![]]))),
            refused_by_one(NOTHING),
        ),
    ]);
}

#[test]
fn several_claims() {
    let two = |a: ClaimSeen, b: ClaimSeen| pod().on([node("n")]).using([a, b]);
    let large = |mut v: PersistentVolume| {
        let size = [(volume::STORAGE.to_owned(), Quantity("5Gi".into()))].into();
        v.spec.as_mut().unwrap().capacity = Some(size);
        v
    };
    let both = || [volume("v"), large(volume("w"))];
    check([
        (
            "the small one does not take the large one's volume",
            two(claim("a").size("4Gi").near(both()), claim("b").near(both())),
            reserve("b", "v"),
        ),
        (
            "no volume is promised twice",
            two(
                claim("a").near([reserved_for(volume("u"), "a"), volume("v")]),
                claim("b").near([volume("v")]),
            ),
            reserve("b", "v"),
        ),
        (
            "one volume for two claims: the other is made",
            two(claim("a").near([volume("v")]), claim("b").near([volume("v")])),
            reserve("a", "v"),
        ),
        (
            "existing volumes before new ones",
            two(claim("a"), claim("b").near([volume("v")])),
            reserve("b", "v"),
        ),
        ("one by one", two(claim("a").selected("n"), claim("b")), select("b", "n")),
        ("the last one missing", two(claim("a").bound(volume("v")), claim("b").selected("n")), waits_on("n")),
        ("used twice, chosen once", two(claim("a"), claim("a")), select("a", "n")),
        (
            "torn between two nodes",
            pod().on([node("m"), node("n")]).using([claim("a").selected("m"), claim("b").selected("n")]),
            refused(&format!(
                "0/2 nodes are available: 2 {NOTHING}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
            )),
        ),
    ]);
}

#[test]
fn published_room() {
    let quantity = |text: &str| Some(Quantity(text.into()));
    let zone = |value: &str| {
        let match_labels = Some(BTreeMap::from([("zone".to_owned(), value.to_owned())]));
        Some(LabelSelector { match_labels, match_expressions: None })
    };
    let room = |node_topology, capacity, maximum_volume_size| {
        Arc::new(CSIStorageCapacity {
            storage_class_name: "late".into(),
            node_topology,
            capacity,
            maximum_volume_size,
            ..Default::default()
        })
    };
    let publishing =
        |rooms: Vec<Arc<CSIStorageCapacity>>| with(ClaimSeen { capacities: Some(rooms), ..claim("c") });
    let everywhere = || Some(LabelSelector::default());
    check([
        ("enough", publishing(vec![room(zone("z"), quantity("1Gi"), None)]), select("c", "n")),
        ("too little", publishing(vec![room(zone("z"), quantity("1Mi"), None)]), refused_by_one(NO_SPACE)),
        ("elsewhere", publishing(vec![room(zone("y"), quantity("1Ti"), None)]), refused_by_one(NO_SPACE)),
        ("everywhere", publishing(vec![room(everywhere(), quantity("1Ti"), None)]), select("c", "n")),
        ("nowhere", publishing(vec![room(None, quantity("1Ti"), None)]), refused_by_one(NO_SPACE)),
        (
            "the largest volume counts, not the room",
            publishing(vec![room(zone("z"), quantity("1Ti"), quantity("1Mi"))]),
            refused_by_one(NO_SPACE),
        ),
        ("no number", publishing(vec![room(zone("z"), None, None)]), refused_by_one(NO_SPACE)),
        ("nothing published yet", publishing(vec![]), refused_by_one(NO_SPACE)),
        (
            "not checked again once the node is chosen: the volume itself may have taken the room",
            with(ClaimSeen { capacities: Some(vec![]), ..claim("c").selected("n") }),
            waits_on("n"),
        ),
    ]);
}

#[test]
fn a_chosen_node_that_is_gone_is_named() {
    let Step::Do(Action::MarkUnschedulable { text }) = decide(&with(claim("c").selected("dead"))) else {
        panic!("not refused");
    };
    assert!(text.starts_with(&format!("0/1 nodes are available: 1 {NOTHING}.")), "{text}");
    let hint = " persistentvolumeclaim \"c\" waits for node \"dead\", which does not exist: its annotation volume.kubernetes.io/selected-node has to go before another node can be chosen.";
    assert!(text.ends_with(hint), "{text}");
}
