//! What is written about a node, and the list of volumes in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bowline_api::{CSINode, Lease, Node};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::decide;
use super::in_use::InUse;
use super::machine::Machine;
use super::object;
use super::world::{Action, Observed, Step};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn seen() -> Observed {
    Observed {
        now: at(1000),
        node_name: "n".into(),
        machine: Machine { cpus: 2, memory_kib: 1 << 20, pods_max: 110, ..Machine::default() },
        stopping: false,
        node: None,
        csi_node: None,
        lease_namespace: true,
        lease: None,
        in_use: None,
    }
}

/// A node as it is when everything has been written.
fn settled() -> Observed {
    let mut seen = seen();
    let mut node = object::node(&seen);
    node.metadata.uid = Some("u".into());
    seen.csi_node = Some(object::csi_node(&node));
    seen.lease = Some(object::lease(&node, at(1000)));
    seen.node = Some(node);
    let Step::Do(Action::PatchStatus(patch)) = decide(&seen) else { panic!("{:?}", decide(&seen)) };
    seen.node.as_mut().unwrap().status = Some(serde_json::from_value(patch["status"].clone()).unwrap());
    seen
}

fn with_node(change: impl FnOnce(&mut Node)) -> Observed {
    let mut seen = settled();
    change(seen.node.as_mut().unwrap());
    seen
}

#[test]
fn decisions() {
    let foreign = |seen: &mut Observed| {
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "earlier"}]);
        let mut object = CSINode::default();
        object.metadata.owner_references = serde_json::from_value(owner).unwrap();
        seen.csi_node = Some(object);
    };
    let mut other_csi_node = settled();
    foreign(&mut other_csi_node);
    let tainted = with_node(|node| {
        let taints = json!({"taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"},
        ]});
        node.spec = serde_json::from_value(taints).unwrap();
    });
    let table: [(&str, Observed, fn(&Step) -> bool); 11] = [
        ("new", seen(), |s| matches!(s, Step::Do(Action::Register(_)))),
        ("settled", settled(), |s| *s == Step::Done),
        ("no CSINode", Observed { csi_node: None, ..settled() }, |s| {
            matches!(s, Step::Do(Action::PatchStatus(_)))
        }),
        ("CSINode of an earlier node", other_csi_node, |s| matches!(s, Step::Do(Action::DeleteCsiNode(_)))),
        ("labels lost", with_node(|n| n.metadata.labels = None), |s| {
            matches!(s, Step::Do(Action::PatchNode(_)))
        }),
        ("tainted", tainted, |s| matches!(s, Step::Do(Action::SetTaints(rest)) if rest.len() == 1)),
        ("no namespace for leases", Observed { lease_namespace: false, ..settled() }, |s| {
            matches!(s, Step::Do(Action::CreateNamespace(_)))
        }),
        ("no lease", Observed { lease: None, ..settled() }, |s| {
            matches!(s, Step::Do(Action::CreateLease(_)))
        }),
        ("lease due", Observed { now: at(1010), ..settled() }, |s| {
            matches!(s, Step::Do(Action::RenewLease(_)))
        }),
        ("heartbeat due", Observed { now: at(1300), ..settled() }, |s| {
            matches!(s, Step::Do(Action::PatchStatus(_)))
        }),
        ("stopping", Observed { stopping: true, ..settled() }, not_ready),
    ];
    for (name, seen, expected) in table {
        assert!(expected(&decide(&seen)), "{name}: {:?}", decide(&seen));
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
    assert_eq!(decide(&seen), Step::Do(Action::PublishInUse(names(&["a"]))));
    seen.node.as_mut().unwrap().status.as_mut().unwrap().volumes_in_use = Some(vec!["a".into()]);
    assert_eq!(decide(&seen), Step::Do(Action::AcceptInUse(names(&["a"]))));
    // While the mounts of an earlier process are not known, the list in the API stays as it is.
    seen.in_use = None;
    assert!(!matches!(decide(&seen), Step::Do(Action::PublishInUse(_))));
}

#[test]
fn a_lease_is_renewed_in_place() {
    let seen = Observed { now: at(1010), ..settled() };
    let Step::Do(Action::RenewLease(Lease { metadata, spec })) = decide(&seen) else { panic!() };
    assert_eq!(metadata, seen.lease.unwrap().metadata);
    assert_eq!(spec.unwrap().renew_time.unwrap().0, at(1010));
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
