//! The decision table, GC-1 as a property, and the graph on its own.

mod standby;

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_api::keys;
use bowline_machinery::Step::{self, Do, Done, Wait};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::discovery::v2::APIGroupDiscovery;
use proptest::prelude::*;
use serde_json::json;

use super::act::patch;
use super::decide::decide;
use super::graph::Graph;
use super::kinds::Kinds;
use super::lists::Lists;
use super::model::*;

fn kind() -> Arc<Kind> {
    Arc::new(Kind {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    })
}

fn reference(uid: &str, block: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: format!("name-of-{uid}"),
        uid: uid.into(),
        block_owner_deletion: block.then_some(true),
        controller: None,
    }
}

fn node(uid: &str, owners: &[&str]) -> Node {
    let identity = Identity {
        kind: kind(),
        namespace: "default".into(),
        name: format!("name-of-{uid}"),
        uid: uid.into(),
    };
    Node {
        identity: Arc::new(identity),
        version: 1,
        deleting: false,
        finalizers: Vec::new(),
        owners: owners.iter().map(|uid| reference(uid, true)).collect(),
    }
}

fn seen(owners: &[Owner]) -> Observed {
    let names: Vec<String> = (0..owners.len()).map(|number| format!("o{number}")).collect();
    let node = node("a", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let referred = node.owners.iter().zip(owners);
    Observed {
        owners: referred
            .map(|(reference, owner)| Referred { reference: reference.clone(), owner: *owner })
            .collect(),
        node,
        dependents: Dependents::default(),
        complete: true,
        stragglers: Stragglers::Unasked,
    }
}

impl Observed {
    fn finalizer(mut self, name: &str) -> Self {
        self.node.finalizers.push(name.into());
        self
    }
    fn deleting(mut self) -> Self {
        self.node.deleting = true;
        self
    }
    fn parent(mut self) -> Self {
        self.dependents = Dependents { any: true, blocking: 1, staying: 1, in_foreground: false };
        self
    }
    fn circle(mut self) -> Self {
        self.dependents.in_foreground = true;
        self
    }
    fn incomplete(mut self) -> Self {
        self.complete = false;
        self
    }
    fn stragglers(mut self, stragglers: Stragglers) -> Self {
        self.stragglers = stragglers;
        self
    }
    fn unblocked(mut self) -> Self {
        self.node.owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
        self
    }
}

fn check(table: impl IntoIterator<Item = (&'static str, Observed, Step<Action, Why>)>) {
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn collecting() {
    use Owner::*;
    let delete = |policy| Do(Action::Delete(policy));
    let disown = |uids: &[&str]| Do(Action::Disown(uids.iter().map(|uid| (*uid).to_owned()).collect()));
    let unknown = Why::UnknownKind { api_version: "v1".into(), kind: "ConfigMap".into() };
    let invalid = Why::InvalidNamespace(Box::new(reference("o0", true)));
    check([
        ("no owner", seen(&[]), Done),
        ("an owner", seen(&[Solid]), Done),
        ("its owner is gone", seen(&[Gone]), delete(Policy::Background)),
        ("its owner is in another namespace", seen(&[Elsewhere]), delete(Policy::Background)),
        ("all owners are gone", seen(&[Gone, Gone]), delete(Policy::Background)),
        ("one of two is gone", seen(&[Gone, Solid]), disown(&["o0"])),
        ("one of two waits for it", seen(&[Solid, Foreground]), disown(&["o1"])),
        ("its owner waits for it", seen(&[Foreground]), delete(Policy::Background)),
        ("and it has dependents", seen(&[Foreground]).parent(), delete(Policy::Foreground)),
        ("one gone, one waits", seen(&[Gone, Foreground]).parent(), delete(Policy::Foreground)),
        ("gone, with dependents", seen(&[Gone]).parent(), delete(Policy::Background)),
        ("a circle", seen(&[Foreground]).parent().circle(), Do(Action::Unblock)),
        (
            "a circle, unblocked",
            seen(&[Foreground]).parent().circle().unblocked(),
            delete(Policy::Foreground),
        ),
        ("set free", seen(&[Orphaning]), disown(&["o0"])),
        ("set free by one, the other is gone", seen(&[Orphaning, Gone]), disown(&["o0", "o1"])),
        ("asked to orphan", seen(&[Gone]).finalizer(keys::ORPHAN_DEPENDENTS), delete(Policy::Orphan)),
        ("asked to wait", seen(&[Gone]).finalizer(keys::FOREGROUND_DELETION), delete(Policy::Foreground)),
        ("nobody knows the kind", seen(&[Gone, UnknownKind]), Wait(unknown)),
        ("an owner that cannot be", seen(&[Invalid, Gone]), Wait(invalid)),
        ("on its way out", seen(&[Gone]).deleting(), Done),
        ("not everything is listed", seen(&[Gone]).incomplete(), delete(Policy::Background)),
    ]);
}

#[test]
fn letting_go() {
    let foreground = || seen(&[]).deleting().finalizer(keys::FOREGROUND_DELETION);
    let orphan = || seen(&[]).deleting().finalizer(keys::ORPHAN_DEPENDENTS);
    let none_left = || Stragglers::None;
    let go = |finalizer| Do(Action::RemoveFinalizer(finalizer));
    check([
        ("nothing blocks", foreground(), go(keys::FOREGROUND_DELETION)),
        ("something blocks", foreground().parent(), Wait(Why::Blocked(1))),
        ("something may block", foreground().incomplete(), Wait(Why::Incomplete)),
        ("all are free", orphan().stragglers(none_left()), go(keys::ORPHAN_DEPENDENTS)),
        ("nobody looked", orphan(), Wait(Why::Incomplete)),
        (
            "one came late",
            orphan().stragglers(Stragglers::Found(vec![node("b", &["a"])])),
            Do(Action::TakeIn),
        ),
        ("one is not free", orphan().parent().stragglers(none_left()), Wait(Why::Unorphaned(1))),
        ("held by others", seen(&[]).deleting().finalizer("example.com/x"), Done),
    ]);
}

fn any_owner() -> impl Strategy<Value = Owner> {
    use Owner::*;
    prop::sample::select(vec![Solid, Gone, Elsewhere, Foreground, Orphaning, Invalid, UnknownKind])
}

proptest! {
    /// GC-1: nothing goes that has an owner of which the API server did not say that it is gone or waits for this.
    #[test]
    fn only_what_nobody_owns_goes(
        owners in prop::collection::vec(any_owner(), 0..4),
        parent: bool,
        circle: bool,
        deleting: bool,
        complete: bool,
    ) {
        let mut seen = seen(&owners);
        seen.dependents.any = parent;
        seen.dependents.in_foreground = circle;
        (seen.node.deleting, seen.complete) = (deleting, complete);
        if let Do(Action::Delete(_)) = decide(&seen) {
            prop_assert!(!owners.is_empty());
            prop_assert!(owners.iter().all(|o| matches!(o, Owner::Gone | Owner::Elsewhere | Owner::Foreground)));
        }
        if let Do(Action::Disown(uids)) = decide(&seen) {
            let solid = seen.owners.iter().filter(|one| one.owner == Owner::Solid);
            prop_assert!(solid.clone().all(|one| !uids.contains(&one.reference.uid)));
        }
    }
}

#[test]
fn patches_keep_what_they_are_not_about() {
    let mut node = node("a", &["x", "y"]);
    node.finalizers = vec!["example.com/z".into(), keys::ORPHAN_DEPENDENTS.into()];
    let disowned = patch(&Action::Disown(vec!["x".into()]), &node);
    assert_eq!(disowned["metadata"]["ownerReferences"], json!([reference("y", true)]));
    assert_eq!(disowned["metadata"]["resourceVersion"], "1");
    let alone = patch(&Action::Disown(vec!["x".into(), "y".into()]), &node);
    assert_eq!(alone["metadata"]["ownerReferences"], json!(null));
    let free = patch(&Action::RemoveFinalizer(keys::ORPHAN_DEPENDENTS), &node);
    assert_eq!(free["metadata"]["finalizers"], json!(["example.com/z"]));
    let unblocked = patch(&Action::Unblock, &node);
    assert_eq!(unblocked["metadata"]["ownerReferences"][1]["blockOwnerDeletion"], false);
}

fn uids(woken: Vec<Arc<Identity>>) -> Vec<String> {
    let all: BTreeSet<String> = woken.iter().map(|identity| identity.uid.to_string()).collect();
    all.into_iter().collect()
}

#[test]
fn a_change_wakes_whom_it_concerns() {
    let mut graph = Graph::default();
    let none: [&str; 0] = [];
    assert_eq!(uids(graph.put(node("owner", &[]))), none, "nothing to decide");
    assert_eq!(uids(graph.put(node("a", &["owner"]))), ["a"]);
    assert_eq!(uids(graph.put(node("b", &["owner", "nobody"]))), ["b"]);
    let newer = |mut node: Node, version| {
        node.version = version;
        node
    };
    assert_eq!(uids(graph.put(newer(node("a", &["owner"]), 2))), none, "a change of something else");
    assert_eq!(uids(graph.put(newer(node("a", &[]), 1))), none, "older news");

    let mut waiting = newer(node("owner", &[]), 3);
    (waiting.deleting, waiting.finalizers) = (true, vec![keys::FOREGROUND_DELETION.into()]);
    assert_eq!(uids(graph.put(waiting)), ["a", "b", "owner"]);
    assert_eq!(
        graph.summary("owner"),
        Dependents { any: true, blocking: 2, staying: 2, in_foreground: false }
    );
    assert_eq!(uids(graph.put(newer(node("b", &["nobody"]), 4))), ["b", "owner"], "one less to wait for");
    assert_eq!(uids(graph.remove("a")), ["owner"]);
    assert_eq!(uids(graph.remove("owner")), none);
    assert_eq!(uids(graph.retain(&kind(), &BTreeSet::new())), none);
    assert_eq!(graph.len(), (0, 0), "nothing is kept of what is gone");
}

#[test]
fn the_end_of_an_owner_wakes_its_dependents() {
    let mut graph = Graph::default();
    graph.put(node("owner", &[]));
    graph.put(node("a", &["owner"]));
    assert_eq!(uids(graph.retain(&kind(), &BTreeSet::from(["a".into()]))), ["a"]);
    graph.deleted("a");
    assert!(graph.get("a").is_some_and(|node| node.deleting && !node.waits()));
}

#[test]
fn kinds_of_a_server() {
    let resource = |plural: &str, kind: &str, scope: &str, verbs: &[&str]| json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": verbs});
    let all = ["create", "delete", "get", "list", "watch"];
    let groups: Vec<APIGroupDiscovery> = serde_json::from_value(json!([
        {"metadata": {}, "versions": [{"version": "v1", "resources": [
            resource("configmaps", "ConfigMap", "Namespaced", &all),
            resource("events", "Event", "Namespaced", &all),
            resource("bindings", "Binding", "Namespaced", &["create"]),
        ]}]},
        {"metadata": {"name": "x.io"}, "versions": [
            {"version": "v2", "resources": [resource("things", "Thing", "Cluster", &all)]},
            {"version": "v1", "resources": [resource("things", "Thing", "Cluster", &all)]},
        ]},
    ]))
    .unwrap();
    let kinds = Kinds::of(groups, &Kinds::default());
    let collected: Vec<String> =
        kinds.collectable.values().map(|kind| format!("{} {}", kind.api_version, kind.plural)).collect();
    assert_eq!(collected, ["v1 configmaps", "x.io/v2 things"]);
    assert_eq!(kinds.find("x.io/v1", "Thing").map(|kind| kind.version.as_str()), Some("v1"));
    assert!(kinds.find("v1", "Event").is_some_and(|kind| kind.namespaced), "an owner may be of any kind");
    assert!(kinds.find("x.io/v3", "Thing").is_none());
}

/// An aggregated server is down, and the API server that answers has restarted meanwhile.
#[test]
fn kinds_that_discovery_cannot_speak_of_stay_known() {
    let discovery = |freshness: &str, resources: serde_json::Value| -> Vec<APIGroupDiscovery> {
        let version = json!({"version": "v1", "freshness": freshness, "resources": resources});
        serde_json::from_value(json!([{"metadata": {"name": "x.io"}, "versions": [version]}])).unwrap()
    };
    let things = json!([{
        "resource": "things", "responseKind": {"group": "x.io", "version": "v1", "kind": "Thing"},
        "scope": "Namespaced", "verbs": ["delete", "list", "watch"],
    }]);
    let before = Kinds::of(discovery("Current", things), &Kinds::default());
    assert_eq!(before.collectable.len(), 1);
    assert_eq!(Kinds::of(discovery("Stale", json!([])), &before), before);
    let removed = Kinds::of(discovery("Current", json!([])), &before);
    assert_eq!(removed, Kinds::default(), "the group itself says that it has none");
}

/// GC-2: an aggregated server that has been down since the start may hold dependents of which nothing is known.
#[test]
fn an_api_that_is_down_at_the_start_keeps_the_lists_incomplete() {
    let version = |freshness: &str| json!([{"version": "v1", "freshness": freshness, "resources": []}]);
    let discovery = |freshness: &str| -> Vec<APIGroupDiscovery> {
        let group = json!({"metadata": {"name": "x.io"}, "versions": version(freshness)});
        serde_json::from_value(json!([group])).unwrap()
    };
    let down = Kinds::of(discovery("Stale"), &Kinds::default());
    assert_eq!(down.silent.len(), 1);
    assert_eq!(Kinds::of(discovery("Stale"), &down), down, "it stays so until the group answers");
    let answers = Kinds::of(discovery("Current"), &down);
    assert!(answers.silent.is_empty());

    let lists = Lists::default();
    assert!(!lists.follow(std::iter::empty(), !down.silent.is_empty()) && !lists.complete());
    assert!(lists.follow(std::iter::empty(), !answers.silent.is_empty()), "now it is told of");
    assert!(lists.complete());
}
