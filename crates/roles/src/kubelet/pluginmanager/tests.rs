//! Registration decisions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bowline_api::{CSINode, Node};
use bowline_host::net::DirEvent;
use serde_json::json;

use super::decide::decide;
use super::memory::Memory;
use super::model::{Action, DepartedSeen, Facts, Info, Observed, Plugin, Progress, SocketSeen, Step, Why};
use super::version::{Version, highest};

fn facts() -> Facts {
    let topology = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    Facts { node_id: "id".into(), volumes_max: 5, topology, ..Facts::default() }
}

fn plugin(progress: Progress) -> Plugin {
    let info = Info {
        kind: "CSIPlugin".into(),
        name: "d".into(),
        endpoint: "/csi.sock".into(),
        versions: vec!["1.0.0".into()],
    };
    Plugin { generation: 1, info, progress }
}

fn node(labels: serde_json::Value, ids: &str) -> Node {
    let metadata = json!({
        "name": "n", "labels": labels, "annotations": {"csi.volume.kubernetes.io/nodeid": ids},
    });
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn csi_node(drivers: serde_json::Value) -> CSINode {
    serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})).unwrap()
}

fn seen(plugin: Option<Plugin>) -> SocketSeen {
    SocketSeen {
        now: Duration::from_secs(100),
        refresh_at: None,
        path: "/reg.sock".into(),
        generation: Some(1),
        plugin,
        rival: None,
        node: Some(node(json!({}), "{}")),
        csi_node: Some(csi_node(json!([]))),
    }
}

fn write(csi_node: CSINode) -> Step {
    Step::Do(Action::WriteCsiNode(Box::new(csi_node)))
}

fn step(seen: SocketSeen) -> Step {
    decide(&Observed::Socket(Box::new(seen)))
}

#[test]
fn a_socket_is_registered_step_by_step() {
    let answered = || plugin(Progress::Answered(facts()));
    let registered = || plugin(Progress::Registered(facts()));
    let described_as = |plugin| SocketSeen {
        node: Some(node(json!({"zone": "a"}), "{\"d\":\"id\"}")),
        ..seen(Some(plugin))
    };
    let described = || described_as(answered());
    let entry = json!([{"name": "d", "nodeID": "id", "topologyKeys": ["zone"], "allocatable": {"count": 5}}]);
    let table = [
        ("new", seen(None), Step::Do(Action::GetInfo)),
        ("introduced", seen(Some(plugin(Progress::Introduced))), Step::Do(Action::AskDriver)),
        (
            "answered, no node yet",
            SocketSeen { node: None, ..seen(Some(answered())) },
            Step::Wait(Why::NodeNotInitialised),
        ),
        (
            "node to be described",
            seen(Some(answered())),
            Step::Do(Action::DescribeNode { annotation: "{\"d\":\"id\"}".into(), labels: facts().topology }),
        ),
        ("entry missing", described(), write(csi_node(entry.clone()))),
        (
            "entry is there",
            SocketSeen { csi_node: Some(csi_node(entry.clone())), ..described() },
            Step::Do(Action::Confirm(facts())),
        ),
        (
            "entry with another node id goes first",
            SocketSeen {
                csi_node: Some(csi_node(json!([{"name": "d", "nodeID": "old", "topologyKeys": ["zone"]}]))),
                ..described()
            },
            write(csi_node(json!([]))),
        ),
        (
            "registered",
            SocketSeen { csi_node: Some(csi_node(entry.clone())), ..described_as(registered()) },
            Step::Done,
        ),
        (
            "registered, and the limit is to be asked for again",
            SocketSeen {
                csi_node: Some(csi_node(entry.clone())),
                refresh_at: Some(Duration::from_secs(100)),
                ..described_as(registered())
            },
            Step::Do(Action::Refresh),
        ),
        (
            "registered, and the limit is not yet to be asked for again",
            SocketSeen {
                csi_node: Some(csi_node(entry.clone())),
                refresh_at: Some(Duration::from_secs(101)),
                ..described_as(registered())
            },
            Step::Done,
        ),
        // B3: node and CSINode were deleted and came back empty.
        (
            "registered, node empty again",
            seen(Some(registered())),
            Step::Do(Action::DescribeNode { annotation: "{\"d\":\"id\"}".into(), labels: facts().topology }),
        ),
        ("registered, CSINode empty again", described_as(registered()), write(csi_node(entry.clone()))),
        (
            "registered, a person changed the label",
            SocketSeen {
                node: Some(node(json!({"zone": "b"}), "{\"d\":\"id\"}")),
                csi_node: Some(csi_node(entry.clone())),
                ..seen(Some(registered()))
            },
            Step::Done,
        ),
        (
            "registered, no node",
            SocketSeen { node: None, ..seen(Some(registered())) },
            Step::Wait(Why::NodeNotInitialised),
        ),
        (
            "socket made again",
            SocketSeen { generation: Some(2), ..seen(Some(plugin(Progress::Registered(facts())))) },
            Step::Do(Action::Withdraw),
        ),
        (
            "socket gone",
            SocketSeen { generation: None, ..seen(Some(plugin(Progress::Registered(facts())))) },
            Step::Do(Action::Withdraw),
        ),
        ("nothing", SocketSeen { generation: None, ..seen(None) }, Step::Done),
    ];
    for (name, seen, expected) in table {
        assert_eq!(step(seen), expected, "{name}");
    }
}

#[test]
fn refusals_in_upstreams_words() {
    let introduced = |change: fn(&mut Info)| {
        let mut plugin = plugin(Progress::Introduced);
        change(&mut plugin.info);
        seen(Some(plugin))
    };
    let rival = SocketSeen { rival: Version::parse("1.0.0").ok(), ..introduced(|_| ()) };
    let empty_id = Facts { node_id: String::new(), ..facts() };
    let collision = SocketSeen {
        node: Some(node(json!({"zone": "b"}), "{}")),
        ..seen(Some(plugin(Progress::Answered(facts()))))
    };
    let table = [
        (introduced(|i| i.kind = "DRAPlugin".into()), "no handler registered for plugin type: DRAPlugin"),
        (introduced(|i| i.versions.clear()), "Plugin returned an empty list for supported versions"),
        (introduced(|i| i.versions = vec!["0.3.0".into()]), "must be v1.x"),
        (introduced(|i| i.versions = vec!["2.0.0".into()]), "could not find a highest supported version"),
        (rival, "already registered with a higher supported version: \"1.0.0\""),
        (seen(Some(plugin(Progress::Answered(empty_id)))), "plugin registration failed with err"),
        (
            collision,
            "detected topology value collision: driver reported \"zone\":\"a\" but existing label is \"zone\":\"b\"",
        ),
    ];
    for (seen, expected) in table {
        let Step::Do(Action::Refuse(text)) = step(seen) else { panic!("{expected}") };
        assert!(text.starts_with("RegisterPlugin error -- ") && text.contains(expected), "{text}");
    }
    let newer = introduced(|i| i.versions = vec!["1.1.0".into()]);
    assert_eq!(
        step(SocketSeen { rival: Version::parse("1.0.0").ok(), ..newer }),
        Step::Do(Action::AskDriver)
    );
}

#[test]
fn traces_of_a_departed_driver_go_when_it_stays_away() {
    let second = Duration::from_secs(1);
    let seen = |linger: Duration, back| DepartedSeen {
        driver: "d".into(),
        linger: Some(linger),
        back,
        node: Some(node(json!({"zone": "a"}), "{\"d\":\"id\",\"other\":\"x\"}")),
        csi_node: Some(csi_node(json!([{"name": "d", "nodeID": "id"}, {"name": "other", "nodeID": "x"}]))),
    };
    let decided = |seen: DepartedSeen| decide(&Observed::Departed(Box::new(seen)));
    assert_eq!(decided(seen(second, false)), Step::Wait(Why::Lingering(second)));
    assert_eq!(decided(seen(second, true)), Step::Do(Action::Forget));
    let rest = csi_node(json!([{"name": "other", "nodeID": "x"}]));
    assert_eq!(decided(seen(Duration::ZERO, false)), write(rest.clone()));
    let annotation = "{\"other\":\"x\"}".to_owned();
    let next = DepartedSeen { csi_node: Some(rest.clone()), ..seen(Duration::ZERO, false) };
    assert_eq!(decided(next), Step::Do(Action::DescribeNode { annotation, labels: BTreeMap::new() }));
    let clean = Some(node(json!({}), "{\"other\":\"x\"}"));
    assert_eq!(
        decided(DepartedSeen { csi_node: Some(rest), node: clean, ..seen(Duration::ZERO, false) }),
        Step::Do(Action::Forget)
    );
}

#[test]
fn versions() {
    let of = |versions: &[&str]| {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        highest(&versions).map(|v| v.to_string()).ok()
    };
    assert_eq!(of(&["1.0.0", "1.2.0", "0.3"]), Some("1.2.0".into()));
    assert_eq!(of(&["v1.0.0"]), Some("1.0.0".into()));
    assert_eq!(of(&["2.0.0", "1.0.0", "nonsense"]), Some("1.0.0".into()));
    for bad in [&["0.2.0"][..], &["2.0.0"], &["1"], &["nonsense"], &[]] {
        assert_eq!(of(bad), None, "{bad:?}");
    }
    assert!(Version::parse("1.10.0").unwrap() > Version::parse("1.9").unwrap());
}

#[test]
fn a_socket_that_is_made_again_is_another_one() {
    let (memory, path) = (Memory::default(), PathBuf::from("/reg.sock"));
    memory.take(&DirEvent::Created(path.clone()));
    let first = memory.generation(&path);
    memory.take(&DirEvent::Created(path.clone()));
    assert!(first.is_some() && memory.generation(&path) != first);
    memory.take(&DirEvent::Removed(path.clone()));
    assert_eq!(memory.generation(&path), None);
}
