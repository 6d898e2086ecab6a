//! Which nodes take a pod at all, and which of them is chosen.

use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, Taint, Toleration};

use super::*;

fn tainted(effect: &str) -> impl FnOnce(&mut Node) {
    let taint =
        Taint { key: "dedicated".into(), value: Some("db".into()), effect: effect.into(), time_added: None };
    move |node| node.spec.get_or_insert_default().taints = Some(vec![taint])
}

fn tolerating(key: &str, operator: &str, value: &str, effect: &str) -> impl FnOnce(&mut Pod) {
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let toleration = Toleration {
        key: text(key),
        operator: text(operator),
        value: text(value),
        effect: text(effect),
        toleration_seconds: None,
    };
    move |pod| pod.spec.get_or_insert_default().tolerations = Some(vec![toleration])
}

fn requiring(terms: Vec<NodeSelectorTerm>) -> impl FnOnce(&mut Pod) {
    let required = Some(NodeSelector { node_selector_terms: terms });
    let node_affinity =
        NodeAffinity { required_during_scheduling_ignored_during_execution: required, ..Default::default() };
    let affinity = Affinity { node_affinity: Some(node_affinity), ..Default::default() };
    move |pod| pod.spec.get_or_insert_default().affinity = Some(affinity)
}

fn selecting(key: &str, value: &str) -> impl FnOnce(&mut Pod) {
    let selector = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    move |pod| pod.spec.get_or_insert_default().node_selector = Some(selector)
}

#[test]
fn cordons_and_taints() {
    let cordoned = || node("n").changed(|n| n.spec.get_or_insert_default().unschedulable = Some(true));
    let taint = |effect: &str| node("n").changed(tainted(effect));
    let no_schedule = || pod().on([taint("NoSchedule")]);
    let untolerated = || refused_by_one("node(s) had untolerated taint(s)");
    check([
        ("plain", pod().on([node("n")]), bind("n")),
        ("cordoned", pod().on([cordoned()]), refused_by_one("node(s) were unschedulable")),
        (
            "cordoned, tolerated",
            pod().on([cordoned()]).changed(tolerating(keys::TAINT_UNSCHEDULABLE, "Exists", "", "NoSchedule")),
            bind("n"),
        ),
        ("NoSchedule", no_schedule(), untolerated()),
        ("NoExecute", pod().on([taint("NoExecute")]), untolerated()),
        ("PreferNoSchedule", pod().on([taint("PreferNoSchedule")]), bind("n")),
        ("tolerated by key", no_schedule().changed(tolerating("dedicated", "Exists", "", "")), bind("n")),
        (
            "tolerated by value",
            no_schedule().changed(tolerating("dedicated", "", "db", "NoSchedule")),
            bind("n"),
        ),
        ("another value", no_schedule().changed(tolerating("dedicated", "Equal", "web", "")), untolerated()),
        (
            "another effect",
            no_schedule().changed(tolerating("dedicated", "Exists", "", "NoExecute")),
            untolerated(),
        ),
        ("another key", no_schedule().changed(tolerating("gpu", "Exists", "", "")), untolerated()),
        ("everything tolerated", no_schedule().changed(tolerating("", "Exists", "", "")), bind("n")),
        (
            "no key with Equal tolerates nothing",
            no_schedule().changed(tolerating("", "Equal", "db", "")),
            untolerated(),
        ),
    ]);
}

#[test]
fn selectors() {
    let wrong = || refused_by_one("node(s) didn't match Pod's node affinity/selector");
    let term = |key: &str, operator: &str, values: &[&str]| NodeSelectorTerm {
        match_expressions: Some(vec![NodeSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|v| String::from(*v)).collect()),
        }]),
        match_fields: None,
    };
    let here = || pod().on([node("n")]);
    check([
        ("label there", here().changed(selecting("zone", "z")), bind("n")),
        ("label another", here().changed(selecting("zone", "y")), wrong()),
        ("affinity holds", here().changed(requiring(vec![term("zone", "In", &["z"])])), bind("n")),
        ("affinity fails", here().changed(requiring(vec![term("zone", "NotIn", &["z"])])), wrong()),
        (
            "terms are alternatives",
            here().changed(requiring(vec![term("zone", "In", &["y"]), term("zone", "Exists", &[])])),
            bind("n"),
        ),
        ("no terms match nothing", here().changed(requiring(vec![])), wrong()),
    ]);
}

#[test]
fn the_choice() {
    check([
        ("ties by name", pod().on([node("b"), node("a")]), bind("a")),
        ("least to run", pod().on([node("a").load(2), node("b").load(1)]), bind("b")),
        (
            "only what fits",
            pod().on([node("a").changed(tainted("NoSchedule")), node("b").load(9)]),
            bind("b"),
        ),
        ("no nodes", pod(), refused("no nodes available to schedule pods")),
    ]);
}

#[test]
fn limits_and_exclusive_claims() {
    let full = || {
        refused(
            "0/1 nodes are available: 1 node(s) exceed max volume count. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        )
    };
    let exclusive = |user: Option<&str>| {
        let mut seen = claim("c").bound(volume("v"));
        seen.other_user = user.map(String::from);
        seen.changed(|c| {
            c.spec.as_mut().unwrap().access_modes = Some(vec![volume::READ_WRITE_ONCE_POD.into()])
        })
    };
    let mut shared = claim("c").bound(volume("v"));
    shared.other_user = Some("q".into());
    let ephemeral = exclusive(Some("q")).ephemeral();
    let owned = ephemeral.changed(|c| {
        c.metadata.owner_references =
            Some(vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
                uid: "uid-p".into(),
                controller: Some(true),
                ..Default::default()
            }]);
    });
    check([
        ("room", pod().bringing(&["a"]).on([node("n").room(2, &["x"])]), bind("n")),
        ("full", pod().bringing(&["a"]).on([node("n").room(1, &["x"])]), full()),
        ("two for one place", pod().bringing(&["a", "b"]).on([node("n").room(2, &["x"])]), full()),
        ("already there", pod().bringing(&["a"]).on([node("n").room(1, &["a"])]), bind("n")),
        ("one there, one more", pod().bringing(&["a", "b"]).on([node("n").room(2, &["a"])]), bind("n")),
        ("limit of nothing", pod().bringing(&["a"]).on([node("n").room(0, &[])]), full()),
        ("over the limit, brings nothing", pod().on([node("n").room(1, &["x", "y"])]), bind("n")),
        (
            "ReadWriteOncePod, in use",
            pod().using([exclusive(Some("q"))]).on([node("n")]),
            refused(
                "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            ),
        ),
        ("ReadWriteOncePod, ours alone", pod().using([exclusive(None)]).on([node("n")]), bind("n")),
        ("ReadWriteOnce, shared", pod().using([shared]).on([node("n")]), bind("n")),
        ("ephemeral ones are not checked", pod().using([owned]).on([node("n")]), bind("n")),
    ]);
}

#[test]
fn reasons_are_counted_and_ordered_as_text() {
    let seen = pod().on([
        node("a").changed(tainted("NoSchedule")),
        node("b").changed(|n| n.spec.get_or_insert_default().unschedulable = Some(true)),
        node("c").changed(tainted("NoExecute")),
    ]);
    assert_eq!(
        decide(&seen),
        refused(
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )
    );
}
