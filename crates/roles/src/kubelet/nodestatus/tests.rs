//! What is written about a node, and the list of volumes in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_api::{CSINode, Lease, Node};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::decide::decide;
use super::in_use::InUse;
use super::machine::Machine;
use super::model::{Action, HEARTBEAT, LEASE_RENEWAL, LeaseSeen, NodeSeen, Observed, Step, Why};
use super::object;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn seen() -> NodeSeen {
    NodeSeen {
        now: at(1000),
        node_name: "n".into(),
        machine: Machine { cpus: 2, memory_kib: 1 << 20, pods_max: 110, ..Machine::default() },
        address: std::net::IpAddr::from([10, 0, 0, 7]),
        labels: [("example.com/rack".to_owned(), "7".to_owned())].into(),
        taints: Vec::new(),
        register: true,
        stopping: false,
        node: None,
        csi_node: None,
        status_age: None,
        in_use: None,
    }
}

fn step(seen: &NodeSeen) -> Step {
    decide(&Observed::Node(Box::new(seen.clone())))
}

/// A node as it is when everything has been written.
fn settled() -> NodeSeen {
    let mut seen = seen();
    let mut node = object::node(&seen, &BTreeSet::new());
    node.metadata.uid = Some("u".into());
    seen.csi_node = Some(object::csi_node(&node));
    seen.node = Some(node);
    let Step::Do(Action::PatchStatus(patch)) = step(&seen) else { panic!("{:?}", step(&seen)) };
    seen.node.as_mut().unwrap().status = Some(serde_json::from_value(patch["status"].clone()).unwrap());
    seen.status_age = Some(Duration::ZERO);
    seen
}

fn with_node(change: impl FnOnce(&mut Node)) -> NodeSeen {
    let mut seen = settled();
    change(seen.node.as_mut().unwrap());
    seen
}

#[test]
fn decisions() {
    let foreign = |seen: &mut NodeSeen| {
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "earlier"}]);
        let mut object = CSINode::default();
        object.metadata.owner_references = serde_json::from_value(owner).unwrap();
        seen.csi_node = Some(object);
    };
    let mut other_csi_node = settled();
    foreign(&mut other_csi_node);
    // B5: documented use of others, who patch the status, must not be fought over.
    let extended = with_node(|node| {
        let capacity = node.status.as_mut().unwrap().capacity.as_mut().unwrap();
        capacity.insert("example.com/x".into(), Quantity("1".into()));
    });
    let lacking = with_node(|node| {
        node.status.as_mut().unwrap().allocatable.as_mut().unwrap().remove("cpu");
    });
    let table: [(&str, NodeSeen, fn(&Step) -> bool); 11] = [
        ("mounts not known yet", seen(), |s| matches!(s, Step::Wait(Why::MountsUnknown))),
        ("new", NodeSeen { in_use: Some((names(&["a"]), names(&[]))), ..seen() }, |s| {
            let in_use = |node: &Node| bowline_api::node::volumes_in_use(node) == ["a"];
            matches!(s, Step::Do(Action::Register(node)) if in_use(node))
        }),
        ("settled", settled(), |s| *s == Step::Done),
        ("with an extended resource", extended, |s| *s == Step::Done),
        ("without one of ours", lacking, |s| matches!(s, Step::Do(Action::PatchStatus(_)))),
        ("no CSINode", NodeSeen { csi_node: None, ..settled() }, |s| {
            matches!(s, Step::Do(Action::PatchStatus(_)))
        }),
        ("CSINode of an earlier node", other_csi_node, |s| matches!(s, Step::Do(Action::DeleteCsiNode(_)))),
        ("labels lost", with_node(|n| n.metadata.labels = None), |s| {
            matches!(s, Step::Do(Action::PatchNode(_)))
        }),
        ("heartbeat due", NodeSeen { status_age: Some(HEARTBEAT), ..settled() }, |s| {
            matches!(s, Step::Do(Action::PatchStatus(_)))
        }),
        // B4: the wall clock has stepped, nothing is due by the clock that counts.
        ("clock ahead", NodeSeen { now: at(100_000), ..settled() }, |s| *s == Step::Done),
        ("stopping", NodeSeen { stopping: true, ..settled() }, not_ready),
    ];
    for (name, seen, expected) in table {
        assert!(expected(&step(&seen)), "{name}: {:?}", step(&seen));
    }
}

fn not_ready(step: &Step) -> bool {
    let Step::Do(Action::PatchStatus(patch)) = step else { return false };
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    conditions.iter().any(|c: &Value| c["type"] == "Ready" && c["status"] == "False")
}

#[test]
fn volumes_in_use_go_first_and_wait_for_nothing() {
    let mut seen = settled();
    seen.now = at(2000);
    seen.in_use = Some((names(&["a"]), names(&[])));
    assert_eq!(step(&seen), Step::Do(Action::PublishInUse(names(&["a"]))));
    seen.node.as_mut().unwrap().status.as_mut().unwrap().volumes_in_use = Some(vec!["a".into()]);
    assert_eq!(step(&seen), Step::Do(Action::AcceptInUse(names(&["a"]))));
    // While the mounts of an earlier process are not known, the list in the API stays as it is.
    seen.in_use = None;
    assert!(!matches!(step(&seen), Step::Do(Action::PublishInUse(_))));
}

#[test]
fn a_lease_is_renewed_in_place() {
    let node = settled().node.unwrap();
    // B4: the time in it lies in the future, since the clock was wrong when it was written.
    let lease = object::lease(&node, at(9000));
    let seen = |age| {
        let (node, lease) = (Some(node.clone()), Some(lease.clone()));
        Observed::Lease(Box::new(LeaseSeen { now: at(1010), node, lease, age }))
    };
    for age in [None, Some(LEASE_RENEWAL)] {
        let Step::Do(Action::RenewLease(Lease { metadata, spec })) = decide(&seen(age)) else {
            panic!("{age:?}")
        };
        assert_eq!(metadata, lease.metadata);
        assert_eq!(spec.unwrap().renew_time.unwrap().0, at(1010));
    }
    assert_eq!(decide(&seen(Some(LEASE_RENEWAL / 2))), Step::Done);
}

#[test]
fn a_volume_counts_as_reported_only_while_no_write_without_it_is_under_way() {
    let (in_use, heard) = (InUse::default(), Arc::new(Mutex::new(Vec::new())));
    let log = heard.clone();
    in_use.on_accepted(move |name| log.lock().unwrap().push(name.to_owned()));
    assert_eq!(in_use.lists(), None, "not complete");
    in_use.complete();
    in_use.insert("a");
    in_use.insert("b");
    in_use.sending(&names(&["a"]));
    in_use.sent(&names(&["a"]));
    assert!(in_use.accepted("a") && !in_use.accepted("b"));
    in_use.remove("a");
    assert!(!in_use.accepted("a"), "given up at once");
    in_use.insert("a");
    in_use.sending(&names(&["b"]));
    assert!(!in_use.accepted("a"), "the write under way is without it");
    in_use.sent(&names(&["b"]));
    in_use.remove("b");
    in_use.sent(&names(&["a", "b"]));
    assert!(in_use.accepted("a") && !in_use.accepted("b"), "given up while it was written");
    assert_eq!(*heard.lock().unwrap(), ["a", "b", "a"]);
}
