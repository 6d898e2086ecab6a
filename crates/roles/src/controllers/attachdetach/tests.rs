//! Decisions for one volume on one or two nodes, and ATT-2 and ATT-3 as properties.

mod churn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::{VolumeAttachment, build};
use bowline_machinery::Step;
use proptest::prelude::*;

use super::decide::decide;
use super::model::{Action, Attachment, NodeState, Observed, OnNode, Report, Why};

const LIMIT: Duration = Duration::from_secs(360);
const READY: NodeState = NodeState::Managed { ready: true, out_of_service: false };
const UNREADY: NodeState = NodeState::Managed { ready: false, out_of_service: false };
const TAINTED: NodeState = NodeState::Managed { ready: false, out_of_service: true };

fn nothing() -> OnNode {
    OnNode {
        volume: "pv-1".into(),
        node: READY,
        pods: Vec::new(),
        attachment: None,
        report: Report::No,
        in_use: false,
        unwanted_for: None,
        told_waiting: false,
        tell_attached: false,
        untold_error: None,
    }
}

impl OnNode {
    fn pod(mut self, name: &str) -> Self {
        self.pods.push(Arc::new(build::pod(name).build()));
        self
    }
    fn attachment(self, attached: bool) -> Self {
        let object = Arc::new(VolumeAttachment::default());
        Self { attachment: Some(Attachment { object, ours: true, deleting: false, attached }), ..self }
    }
    fn attached(self) -> Self {
        self.attachment(true)
    }
    fn attaching(self) -> Self {
        self.attachment(false)
    }
    fn deleting(mut self) -> Self {
        self.attachment.iter_mut().for_each(|a| a.deleting = true);
        self
    }
    fn foreign(mut self) -> Self {
        self.attachment.iter_mut().for_each(|a| a.ours = false);
        self
    }
    fn report(self, report: Report) -> Self {
        Self { report, ..self }
    }
    fn reported(self) -> Self {
        self.report(Report::Yes)
    }
    fn in_use(self) -> Self {
        Self { in_use: true, ..self }
    }
    fn node(self, node: NodeState) -> Self {
        Self { node, ..self }
    }
    fn unwanted_for(self, seconds: u64) -> Self {
        Self { unwanted_for: Some(Duration::from_secs(seconds)), ..self }
    }
    fn told_waiting(self) -> Self {
        Self { told_waiting: true, ..self }
    }
    fn tell_attached(self) -> Self {
        Self { tell_attached: true, ..self }
    }
    fn error(self, error: &str) -> Self {
        Self { untold_error: Some(error.into()), ..self }
    }
}

fn seen<const N: usize>(nodes: [(&str, OnNode); N]) -> Observed {
    Observed {
        key: "kubernetes.io/csi/d^v".into(),
        shared: false,
        force_after: Some(LIMIT),
        nodes: nodes.into_iter().map(|(name, on)| (name.to_owned(), on)).collect(),
    }
}

fn on(node: &str) -> String {
    node.to_owned()
}

#[test]
fn attach_decisions() {
    let attach = || Step::Do(Action::Attach { node: on("a") });
    let report = || Step::Do(Action::Report { node: on("a") });
    let unreport = || Step::Do(Action::Unreport { node: on("a") });
    let tell_attached = Step::Do(Action::TellAttached { node: on("a") });
    let tell_failed = Step::Do(Action::TellFailed { node: on("a"), error: "no".into() });
    let unsettled = Step::Wait(Why::Unsettled { node: on("a") });
    let wanted = || nothing().pod("p");
    let table = [
        ("wanted", wanted(), attach()),
        ("wanted again", wanted().attached().unwanted_for(9), Step::Do(Action::StopTimer { node: on("a") })),
        ("kubelet attaches itself", wanted().node(NodeState::Unmanaged), Step::Done),
        ("unready node gets it, too", wanted().node(UNREADY), attach()),
        ("node gone", wanted().node(NodeState::Gone), Step::Wait(Why::NodeGone { node: on("a") })),
        ("created", wanted().attaching(), Step::Wait(Why::Attaching { node: on("a") })),
        ("driver failed", wanted().attaching().error("no"), tell_failed),
        ("attached", wanted().attached().tell_attached(), report()),
        ("report lost", wanted().attached().report(Report::Unsure), report()),
        ("reported", wanted().attached().reported().tell_attached(), tell_attached),
        ("told", wanted().attached().reported().in_use(), Step::Done),
        ("attachment lost", wanted().reported().in_use(), unreport()),
        ("no longer attached", wanted().attaching().reported(), unreport()),
        ("moved away and back", wanted().attached().deleting(), Step::Wait(Why::Detaching { node: on("a") })),
        ("deleted by somebody", wanted().attached().reported().deleting(), unreport()),
        ("report unsure, attachment lost", wanted().report(Report::Unsure), unsettled),
    ];
    for (name, here, expected) in table {
        assert_eq!(decide(&seen([("a", here)])), expected, "{name}");
    }
}

#[test]
fn detach_decisions() {
    let report = Step::Do(Action::Report { node: on("a") });
    let unreport = || Step::Do(Action::Unreport { node: on("a") });
    let detach = || Step::Do(Action::Detach { node: on("a") });
    let in_use = || Step::Wait(Why::InUse { node: on("a") });
    let timer = || Step::Do(Action::StartTimer { node: on("a") });
    let foreign = Step::Wait(Why::Foreign { attachment: "".into() });
    let used = || nothing().attached().in_use();
    let gone = NodeState::Gone;
    let table = [
        ("free", nothing().attached().reported(), unreport()),
        ("free, no report", nothing().attached(), detach()),
        ("never attached", nothing().attaching(), detach()),
        ("report may still land", nothing().attached().report(Report::Unsure), report),
        ("in use", used().reported(), timer()),
        ("in use, counting", used().reported().unwanted_for(10), in_use()),
        ("in use on a ready node for long", used().unwanted_for(9999), in_use()),
        ("unready, counting", used().node(UNREADY).unwanted_for(359), in_use()),
        ("unready for long", used().reported().node(UNREADY).unwanted_for(360), unreport()),
        ("unready for long, no report", used().node(UNREADY).unwanted_for(360), detach()),
        ("out of service", used().node(TAINTED), detach()),
        ("node gone, in use when it went", used().node(gone), timer()),
        ("node gone for long", used().node(gone).unwanted_for(360), detach()),
        ("node gone, free when it went", nothing().attached().node(gone), detach()),
        ("detaching", nothing().attached().deleting(), Step::Wait(Why::Detaching { node: on("a") })),
        ("deleted by somebody", used().reported().deleting(), unreport()),
        ("stale report", nothing().reported().in_use(), unreport()),
        ("not ours", nothing().attached().foreign(), foreign),
        ("unmanaged", nothing().attached().node(NodeState::Unmanaged), Step::Done),
        ("nothing", nothing(), Step::Done),
    ];
    for (name, here, expected) in table {
        assert_eq!(decide(&seen([("a", here)])), expected, "{name}");
    }
}

#[test]
fn a_disabled_timer_never_forces() {
    let here = nothing().attached().in_use().node(NodeState::Gone).unwanted_for(99_999);
    let seen = Observed { force_after: None, ..seen([("a", here)]) };
    assert_eq!(decide(&seen), Step::Wait(Why::InUse { node: on("a") }));
}

#[test]
fn one_writer_waits_for_the_other_node() {
    let exclusive = |pods: &[&str]| Why::Exclusive {
        volume: "pv-1".into(),
        pods: pods.iter().map(ToString::to_string).collect(),
        pods_elsewhere: 0,
    };
    let tell = |pods: &[&str]| Step::Do(Action::TellWaiting { node: on("b"), why: exclusive(pods) });
    let detach = Step::Do(Action::Detach { node: on("a") });
    let attach = Step::Do(Action::Attach { node: on("a") });
    let used = || nothing().pod("p").attached().reported();
    let q = || nothing().pod("q");
    let table = [
        ("used there", used(), q(), tell(&["p"])),
        ("told", used(), q().told_waiting(), Step::Wait(exclusive(&["p"]))),
        ("uncertain there", nothing().attaching().foreign(), q(), tell(&[])),
        ("detaching there", nothing().attached().deleting(), q(), tell(&[])),
        ("unmanaged there", nothing().attached().node(NodeState::Unmanaged), q(), tell(&[])),
        ("free there: it goes first", nothing().attached(), q(), detach),
        ("both want it", nothing().pod("p"), q(), attach),
    ];
    for (name, a, b, expected) in table {
        assert_eq!(decide(&seen([("a", a), ("b", b)])), expected, "{name}");
    }
    let shared = Observed { shared: true, ..seen([("a", used()), ("b", q())]) };
    assert_eq!(decide(&shared), Step::Do(Action::Attach { node: on("b") }));
}

#[test]
fn words_of_waiting() {
    let why = |pods: &[&str], pods_elsewhere| {
        let pods = pods.iter().map(ToString::to_string).collect();
        Why::Exclusive { volume: "pv-1".into(), pods, pods_elsewhere }.to_string()
    };
    let exclusively = "Volume is already exclusively attached to one node, \
                       waiting on detach before it can be attached to another node";
    let table = [
        (why(&[], 0), exclusively),
        (why(&["a", "b"], 0), "Volume is already used by pod(s) a, b"),
        (why(&["a"], 2), "Volume is already used by pod(s) a and 2 pod(s) in different namespaces"),
        (why(&[], 1), "Volume is already used by 1 pod(s) in different namespaces"),
    ];
    for (text, expected) in table {
        assert_eq!(text, format!("Waiting for detach for volume \"pv-1\" {expected}"));
    }
}

fn any_node() -> impl Strategy<Value = NodeState> {
    prop_oneof![
        Just(NodeState::Gone),
        Just(NodeState::Unmanaged),
        any::<(bool, bool)>()
            .prop_map(|(ready, out_of_service)| NodeState::Managed { ready, out_of_service }),
    ]
}

prop_compose! {
    fn any_on_node()(
        node in any_node(),
        wanted in any::<bool>(),
        attachment in prop::option::of(any::<(bool, bool, bool)>()),
        report in prop_oneof![Just(Report::No), Just(Report::Yes), Just(Report::Unsure)],
        in_use in any::<bool>(),
        unwanted in prop::option::of(prop_oneof![Just(0u64), Just(359), Just(360), Just(1000)]),
        (told_waiting, tell_attached, error) in any::<(bool, bool, bool)>(),
    ) -> OnNode {
        let object = Arc::new(VolumeAttachment::default());
        let attachment =
            attachment.map(|(ours, deleting, attached)| Attachment { object, ours, deleting, attached });
        let on = OnNode {
            node,
            attachment,
            report: if node == NodeState::Gone { Report::No } else { report },
            in_use,
            unwanted_for: unwanted.map(Duration::from_secs),
            told_waiting,
            tell_attached,
            untold_error: error.then(|| "no".into()),
            ..nothing()
        };
        if wanted { on.pod("p") } else { on }
    }
}

prop_compose! {
    fn any_observed()(
        nodes in prop::collection::btree_map("[abc]", any_on_node(), 1..3),
        shared in any::<bool>(),
        forced in any::<bool>(),
    ) -> Observed {
        Observed { shared, force_after: forced.then_some(LIMIT), nodes, ..seen([]) }
    }
}

proptest! {
    #[test]
    fn a_single_writer_is_attached_once(seen in any_observed()) {
        if let Step::Do(Action::Attach { node }) = decide(&seen) {
            let taken = |on: &OnNode| on.attachment.is_some() || on.report != Report::No;
            let elsewhere = seen.nodes.iter().any(|(name, on)| *name != node && taken(on));
            prop_assert!(seen.shared || !elsewhere, "ATT-2: {seen:?}");
        }
    }

    #[test]
    fn what_may_be_mounted_is_not_detached(seen in any_observed()) {
        if let Step::Do(Action::Detach { node }) = decide(&seen) {
            let on = &seen.nodes[&node];
            let waited = seen.force_after.is_some_and(|limit| on.unwanted_for.is_some_and(|t| t >= limit));
            let forced = match on.node {
                NodeState::Managed { out_of_service: true, .. } => true,
                NodeState::Managed { ready, .. } => !ready && waited,
                NodeState::Gone => waited,
                NodeState::Unmanaged => false,
            };
            prop_assert!(!on.in_use || forced, "ATT-3: {seen:?}");
            prop_assert!(on.pods.is_empty(), "wanted: {seen:?}");
            prop_assert_eq!(on.report, Report::No, "the report goes first: {:?}", seen);
        }
    }

    #[test]
    fn only_what_is_attached_is_reported(seen in any_observed()) {
        if let Step::Do(Action::Report { node }) = decide(&seen) {
            let attachment = seen.nodes[&node].attachment.clone();
            prop_assert!(attachment.is_some_and(|a| !a.deleting), "{seen:?}");
        }
    }

    /// With a driver that answers and a node that lets go, every world comes to rest.
    #[test]
    fn settles(seen in any_observed()) {
        let mut seen = seen;
        for _ in 0..64 {
            match decide(&seen) {
                Step::Do(action) => done(&mut seen, action),
                Step::Wait(_) if progress(&mut seen) => {}
                Step::Wait(_) | Step::Fail(_) | Step::Done => return Ok(()),
            }
        }
        prop_assert!(false, "did not settle: {seen:?}");
    }
}

/// The world after an action succeeded.
fn done(seen: &mut Observed, action: Action) {
    let change = |nodes: &mut BTreeMap<String, OnNode>, node: String, change: &dyn Fn(OnNode) -> OnNode| {
        let on = nodes.remove(&node).expect("observed");
        nodes.insert(node, change(on));
    };
    let nodes = &mut seen.nodes;
    match action {
        Action::Attach { node } => change(nodes, node, &OnNode::attaching),
        Action::Report { node } => change(nodes, node, &OnNode::reported),
        Action::Unreport { node } => change(nodes, node, &|on| on.report(Report::No)),
        Action::Detach { node } => change(nodes, node, &OnNode::deleting),
        Action::StartTimer { node } => change(nodes, node, &|on| on.unwanted_for(0)),
        Action::StopTimer { node } => change(nodes, node, &|on| OnNode { unwanted_for: None, ..on }),
        Action::TellAttached { node } => change(nodes, node, &|on| OnNode { tell_attached: false, ..on }),
        Action::TellFailed { node, .. } => change(nodes, node, &|on| OnNode { untold_error: None, ..on }),
        Action::TellWaiting { node, .. } => change(nodes, node, &OnNode::told_waiting),
    }
}

/// What others do meanwhile: the attacher finishes, a write that hung lands nowhere, the kubelet lets go.
fn progress(seen: &mut Observed) -> bool {
    let before = seen.clone();
    for on in seen.nodes.values_mut().filter(|on| on.node != NodeState::Unmanaged) {
        match &mut on.attachment {
            Some(attachment) if attachment.deleting => on.attachment = None,
            Some(attachment) => attachment.attached = true,
            None => {}
        }
        if on.report == Report::Unsure {
            on.report = Report::No;
        }
        on.in_use &= !on.pods.is_empty();
    }
    *seen != before
}
