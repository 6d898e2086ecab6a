//! Decisions about one volume: the table, and the promises as properties.

mod expand;
mod inline;
mod pools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_api::PersistentVolume;
use proptest::prelude::*;
use serde_json::json;

use super::decide::{decide, next_report};
use super::desired::{Claimed, resolve};
use super::model::{
    Action, AttachSeen, DriverSeen, Mode, Need, Observed, Presence, Staging, Step, Target, Want, Why,
};
use crate::kubelet::Reported;
use Presence::{Absent, Present, Uncertain, Unexpanded};

fn target(pod: &str) -> Target {
    Target { pod_uid: pod.into(), spec_name: "pv".into() }
}

fn need(want: Want, presence: Presence) -> Need {
    Need {
        want,
        mode: Mode::Filesystem,
        read_only: false,
        presence,
        failures: 0,
        republish_at: None,
        volume: "data".into(),
        since: Some(at(100)),
        reported: None,
        limit_checked: None,
    }
}

/// Everything is ready for a mount, and nobody wants one.
fn seen() -> Observed {
    Observed {
        volume: "kubernetes.io/csi/d^h".into(),
        driver_name: "d".into(),
        handle: "h".into(),
        inline: false,
        now: at(100),
        driver: DriverSeen::Registered { stages: true, expands: true },
        attach: AttachSeen::Attached,
        may_unmount: true,
        needs: BTreeMap::new(),
        stages: BTreeMap::new(),
        unreachable: Vec::new(),
        sources: BTreeMap::new(),
        sizes: BTreeMap::new(),
        pods: BTreeMap::new(),
        csi_driver: None,
        reported: None,
    }
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

impl Observed {
    fn need(mut self, pod: &str, want: Want, presence: Presence) -> Self {
        self.needs.insert(target(pod), need(want, presence));
        self
    }
    fn staged(mut self, presence: Presence) -> Self {
        self.stages.insert(Staging::Filesystem, presence);
        self
    }
    fn attach(self, attach: AttachSeen) -> Self {
        Self { attach, ..self }
    }
    fn driver(self, driver: DriverSeen) -> Self {
        Self { driver, ..self }
    }
    fn failed(mut self, pod: &str, failures: u32) -> Self {
        self.needs.get_mut(&target(pod)).unwrap().failures = failures;
        self
    }
    fn access_mode(mut self, mode: &str) -> Self {
        let pv: PersistentVolume =
            serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": {"accessModes": [mode], "capacity": {"storage": "2Gi"}}}))
                .unwrap();
        self.sources.insert("pv".into(), Arc::new(pv));
        self
    }
}

#[test]
fn decisions() {
    let wanted = || seen().need("a", Want::Mounted, Absent);
    let unstage = || Step::Do(Action::Unstage(Staging::Filesystem));
    let publish = |pod| Step::Do(Action::Publish(target(pod)));
    let table = [
        ("nobody", seen(), Step::Do(Action::Forget)),
        ("wanted, not listed", wanted().attach(AttachSeen::NotListed), Step::Do(Action::ListInUse)),
        ("listed, not accepted", wanted().attach(AttachSeen::NotAccepted), Step::Wait(Why::NotAccepted)),
        (
            "not in the node's status",
            wanted().attach(AttachSeen::NotInNodeStatus),
            Step::Wait(Why::NotInNodeStatus(seen().volume)),
        ),
        ("attached", wanted(), Step::Do(Action::Stage(target("a")))),
        ("no attach needed", wanted().attach(AttachSeen::NotRequired), Step::Do(Action::Stage(target("a")))),
        ("stage unknown", wanted().staged(Uncertain), Step::Do(Action::Stage(target("a")))),
        ("staged", wanted().staged(Present), publish("a")),
        (
            "driver does not stage",
            wanted().driver(DriverSeen::Registered { stages: false, expands: true }),
            publish("a"),
        ),
        ("publish unknown", seen().need("a", Want::Mounted, Uncertain).staged(Present), publish("a")),
        ("mounted", seen().need("a", Want::Mounted, Present).staged(Present), Step::Done),
        (
            "pod ends, containers run",
            seen().need("a", Want::AsItIs, Present).staged(Present),
            Step::Wait(Why::InUse),
        ),
        (
            "no containers left",
            seen().need("a", Want::Gone, Present).staged(Present),
            Step::Do(Action::Unpublish(target("a"))),
        ),
        (
            "publish was unknown: still unpublished",
            seen().need("a", Want::Gone, Uncertain).staged(Present),
            Step::Do(Action::Unpublish(target("a"))),
        ),
        ("last one gone", seen().need("a", Want::Gone, Absent).staged(Present), unstage()),
        ("stage was unknown: still unstaged", seen().staged(Uncertain), unstage()),
        ("all gone", seen().staged(Absent), Step::Do(Action::Forget)),
        (
            "the stage stays for the other pod",
            seen().need("a", Want::Gone, Absent).need("b", Want::Mounted, Present).staged(Present),
            Step::Done,
        ),
        (
            "unmount before mount",
            seen().need("a", Want::Mounted, Absent).need("b", Want::Gone, Present).staged(Present),
            Step::Do(Action::Unpublish(target("b"))),
        ),
        (
            "who failed less goes first",
            seen()
                .need("a", Want::Mounted, Absent)
                .need("b", Want::Mounted, Absent)
                .staged(Present)
                .failed("a", 2),
            publish("b"),
        ),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn nothing_is_unmounted_before_the_containers_of_an_earlier_process_are_known() {
    let mut seen = seen().need("a", Want::Gone, Uncertain).staged(Uncertain);
    seen.may_unmount = false;
    assert_eq!(decide(&seen), Step::Wait(Why::NotCounted));
    seen.needs.clear();
    assert_eq!(decide(&seen), Step::Wait(Why::NotCounted));
}

/// The pod is gone, and the volume stays in use on this node.
#[test]
fn a_driver_that_is_missing_at_unstaging_is_reported_on_the_node() {
    let missing = DriverSeen::Missing { since: at(50) };
    let left = |now| Observed { now: at(now), ..seen().staged(Present).driver(missing) };
    assert_eq!(decide(&left(59)), Step::Wait(Why::DriverMissing("d".into())));
    assert_eq!(next_report(&left(59)), Some(at(60)));
    let Step::Do(Action::ReportNode(text)) = decide(&left(60)) else { panic!("{:?}", decide(&left(60))) };
    assert_eq!(
        text,
        "UnmountDevice failed for volume \"kubernetes.io/csi/d^h\" : kubernetes.io/csi: attacher.UnmountDevice failed to create newCsiDriverClient: driver name d not found in the list of registered CSI drivers"
    );
    let told = Observed { reported: Some(Reported { text, at: at(60), times: 1 }), ..left(61) };
    assert_eq!(decide(&told), Step::Wait(Why::DriverMissing("d".into())));
    assert_eq!(next_report(&told), Some(at(70)));
}

#[test]
fn a_missing_driver_is_waited_for_and_reported() {
    let missing = DriverSeen::Missing { since: at(50) };
    let away = |now| Observed { now: at(now), ..seen().need("a", Want::Mounted, Absent).driver(missing) };
    assert_eq!(decide(&away(55)), Step::Wait(Why::DriverStarting(at(60))));
    let Step::Do(Action::Report(_, text)) = decide(&away(60)) else { panic!("{:?}", decide(&away(60))) };
    assert_eq!(
        text,
        "MountVolume.MountDevice failed for volume \"pv\" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name d not found in the list of registered CSI drivers"
    );
    let mut told = away(70);
    let reported = Reported { text, at: told.now, times: 1 };
    told.needs.get_mut(&target("a")).unwrap().reported = Some(reported);
    assert_eq!(decide(&told), Step::Wait(Why::DriverMissing("d".into())));
    let leaving = || seen().need("a", Want::Gone, Present).staged(Present).driver(missing);
    let early = Observed { now: at(59), ..leaving() };
    assert_eq!(decide(&early), Step::Wait(Why::DriverMissing("d".into())));
    assert_eq!(next_report(&early), Some(at(60)));
    let Step::Do(Action::Report(_, text)) = decide(&leaving()) else { panic!("{:?}", decide(&leaving())) };
    assert_eq!(
        text,
        "UnmountVolume.TearDown failed for volume \"pv\" : kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: driver name d not found in the list of registered CSI drivers"
    );
}

#[test]
fn obstacles_are_reported_in_upstreams_words() {
    let pods = seen().need("a", Want::Mounted, Absent).need("b", Want::AsItIs, Uncertain).staged(Present);
    let one_pod = pods.access_mode("ReadWriteOncePod");
    let text = "MountVolume.SetUp failed for volume \"pv\" : volume uses the ReadWriteOncePod access mode and is already in use by another pod";
    assert_eq!(decide(&one_pod), Step::Do(Action::Report(target("a"), text.into())));
    let mut far = seen().need("a", Want::Mounted, Absent);
    far.unreachable = vec!["pv".into()];
    let text = "MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms";
    assert_eq!(decide(&far), Step::Do(Action::Report(target("a"), text.into())));
}

#[test]
fn claims_lead_to_volumes_or_say_why_not() {
    let pod = bowline_api::build::pod("p").mount("c", "/c").build();
    let wanted = Claimed {
        volume_name: "c".into(),
        claim_name: "c".into(),
        read_only: false,
        ephemeral: false,
        mounted: true,
        device: false,
    };
    let claim = |phase: &str, volume: &str| {
        let value = json!({
            "metadata": {"name": "c", "namespace": "default", "uid": "u"},
            "spec": {"volumeName": volume}, "status": {"phase": phase},
        });
        Some(serde_json::from_value(value).unwrap())
    };
    let pv = |uid: &str, mode: &str| {
        let value = json!({
            "metadata": {"name": "pv"},
            "spec": {"volumeMode": mode, "claimRef": {"uid": uid}, "csi": {"driver": "d", "volumeHandle": "h"}},
        });
        Some(serde_json::from_value(value).unwrap())
    };
    let error = |claim: Option<bowline_api::PersistentVolumeClaim>, pv: Option<PersistentVolume>| {
        resolve(&pod, &wanted, claim.as_ref(), pv.as_ref()).unwrap_err()
    };
    let table = [
        (error(None, None), "failed to fetch PVC from API server"),
        (error(claim("Pending", "pv"), None), "error processing PVC default/c: PVC is not bound"),
        (error(claim("Bound", ""), None), "PVC has empty pvc.Spec.VolumeName"),
        (error(claim("Bound", "pv"), None), "failed to fetch PV pv from API server"),
        (error(claim("Bound", "pv"), pv("other", "Filesystem")), "found PV object pv but"),
        (
            error(claim("Bound", "pv"), pv("u", "Block")),
            "volume c has volumeMode Block, but is specified in volumeMounts",
        ),
    ];
    for (text, expected) in table {
        assert!(text.contains(expected), "{text}");
    }
    let found =
        resolve(&pod, &wanted, claim("Bound", "pv").as_ref(), pv("u", "Filesystem").as_ref()).unwrap();
    assert_eq!((found.volume.as_str(), found.mode), ("kubernetes.io/csi/d^h", Mode::Filesystem));
}

fn any_presence() -> impl Strategy<Value = Presence> {
    prop_oneof![Just(Absent), Just(Uncertain), Just(Present)]
}

fn any_need() -> impl Strategy<Value = Need> {
    let want = prop_oneof![Just(Want::Mounted), Just(Want::AsItIs), Just(Want::Gone)];
    let mode = prop_oneof![Just(Mode::Filesystem), Just(Mode::Block)];
    let presence = prop_oneof![Just(Absent), Just(Uncertain), Just(Unexpanded), Just(Present)];
    (want, mode, presence, 0u32..3, any::<bool>()).prop_map(|(want, mode, presence, failures, read_only)| {
        Need { mode, failures, read_only, ..need(want, presence) }
    })
}

prop_compose! {
    fn any_seen()(
        needs in prop::collection::vec(any_need(), 0..4),
        filesystem in any_presence(),
        block in any_presence(),
        registered in prop::bool::weighted(0.8),
        stages in any::<bool>(),
        attach in prop_oneof![
            Just(AttachSeen::NotRequired), Just(AttachSeen::NotListed), Just(AttachSeen::NotAccepted),
            Just(AttachSeen::NotInNodeStatus), Just(AttachSeen::Attached),
        ],
        may_unmount in prop::bool::weighted(0.8),
        access_mode in prop_oneof![Just("ReadWriteOnce"), Just("ReadWriteOncePod"), Just("ReadWriteMany")],
        size in expand::any_size(),
    ) -> Observed {
        let driver = if registered { DriverSeen::Registered { stages, expands: true } } else { DriverSeen::Missing { since: at(0) } };
        let named = |(i, n): (usize, Need)| (target(&format!("pod-{i}")), n);
        let stages = [(Staging::Filesystem, filesystem), (Staging::Block("pv".into()), block)].into();
        let needs = needs.into_iter().enumerate().map(named).collect();
        let seen = Observed { needs, stages, may_unmount, ..seen().driver(driver).attach(attach) };
        let mut seen = seen.access_mode(access_mode);
        seen.sizes.insert("pv".into(), size);
        seen
    }
}

/// What a call that succeeded, or whose answer was lost, leaves.
fn apply(seen: &mut Observed, action: &Action, certain: bool) {
    let presence = if certain { Present } else { Uncertain };
    match action {
        Action::ListInUse => seen.attach = AttachSeen::NotAccepted,
        Action::CheckAttachLimit(target) => {
            seen.needs.get_mut(target).unwrap().limit_checked = Some(seen.now);
        }
        Action::Stage(target) => {
            let mode = seen.needs[target].mode;
            seen.stages.insert(Staging::of(target, mode), presence);
        }
        Action::Publish(target) => seen.needs.get_mut(target).unwrap().presence = presence,
        Action::Republish(target) => seen.needs.get_mut(target).unwrap().republish_at = None,
        Action::Unpublish(target) => {
            seen.needs.get_mut(target).unwrap().presence = if certain { Absent } else { Uncertain };
        }
        Action::Unstage(staging) => {
            seen.stages.insert(staging.clone(), if certain { Absent } else { Uncertain });
        }
        Action::Report(target, text) => {
            let reported = Reported { text: text.clone(), at: seen.now, times: 1 };
            seen.needs.get_mut(target).unwrap().reported = Some(reported);
        }
        Action::ReportNode(text) => {
            seen.reported = Some(Reported { text: text.clone(), at: seen.now, times: 1 });
        }
        Action::BeginExpand(_)
        | Action::Expand(..)
        | Action::FinishExpand(_)
        | Action::FailExpand(_)
        | Action::Settle(_)
        | Action::SettleReadOnly(_) => expand::apply(seen, action, certain),
        Action::Forget => {}
    }
}

fn check_order(seen: &Observed, action: &Action) -> Result<(), TestCaseError> {
    let published = |staging: &Staging| {
        seen.needs.iter().any(|(t, n)| Staging::of(t, n.mode) == *staging && n.presence != Absent)
    };
    match action {
        Action::Publish(target) => {
            let need = &seen.needs[target];
            let staged = seen.stages.get(&Staging::of(target, need.mode)) == Some(&Present);
            prop_assert!(
                staged || seen.driver == DriverSeen::Registered { stages: false, expands: true },
                "NODE-1"
            );
            prop_assert!(matches!(seen.attach, AttachSeen::NotRequired | AttachSeen::Attached), "ATT-3");
            prop_assert_eq!(need.want, Want::Mounted);
        }
        Action::Stage(target) => {
            prop_assert!(matches!(seen.attach, AttachSeen::NotRequired | AttachSeen::Attached), "ATT-3");
            prop_assert_eq!(seen.needs[target].want, Want::Mounted);
        }
        Action::Unstage(staging) => {
            prop_assert!(!published(staging), "NODE-1: unstage before the last unpublish");
            prop_assert!(seen.may_unmount, "NODE-3");
        }
        Action::Unpublish(target) => {
            prop_assert_eq!(seen.needs[target].want, Want::Gone, "NODE-3");
            prop_assert!(seen.may_unmount, "NODE-3");
        }
        Action::Forget => {
            prop_assert!(seen.needs.values().all(|n| n.presence == Absent), "NODE-3: forgets a mount");
            prop_assert!(seen.stages.values().all(|p| *p == Absent), "NODE-3: forgets a stage");
        }
        Action::Republish(target) => {
            let need = &seen.needs[target];
            prop_assert_eq!((need.want, need.presence), (Want::Mounted, Present));
        }
        Action::Expand(target, _) | Action::BeginExpand(target) => {
            let need = &seen.needs[target];
            prop_assert!(
                matches!(need.presence, Present | Unexpanded),
                "NODE-1: expands what is not published"
            );
            prop_assert_eq!(need.want, Want::Mounted);
            prop_assert!(!need.read_only);
        }
        Action::FinishExpand(target) => {
            let ended = seen.sizes[&target.spec_name].ended.as_ref();
            prop_assert!(ended.is_some_and(|e| e.failure.is_none()), "RES-1: promised without an answer");
        }
        Action::FailExpand(_) | Action::Settle(_) | Action::SettleReadOnly(_) => {}
        Action::ListInUse | Action::CheckAttachLimit(_) | Action::Report(..) | Action::ReportNode(_) => {}
    }
    Ok(())
}

proptest! {
    /// NODE-1 and NODE-3 from wherever an earlier process died, with answers lost on the way.
    #[test]
    fn calls_keep_their_order_and_end(mut seen in any_seen(), lost in prop::collection::vec(any::<bool>(), 8)) {
        let mut steps = 0;
        while let Step::Do(action) = decide(&seen) {
            check_order(&seen, &action)?;
            if action == Action::Forget {
                break;
            }
            let certain = !lost.get(steps).copied().unwrap_or(false);
            apply(&mut seen, &action, certain);
            steps += 1;
            prop_assert!(steps < 64, "did not settle: {seen:?}");
        }
        // An attach that is still waited for may hold up a mount, never the way out.
        if seen.may_unmount && matches!(seen.driver, DriverSeen::Registered { .. }) {
            let stuck = seen.needs.values().any(|n| n.want == Want::Gone && n.presence != Absent);
            prop_assert!(!stuck, "NODE-3: a mount that nobody wants is left: {seen:?}");
        }
    }
}

/// Reference 4.17: only drivers that keep their limit up to date are looked at, after upstream's wait and then again.
#[test]
fn edge_4_17_an_attachment_that_does_not_come_is_looked_at() {
    let driver = json!({"metadata": {"name": "d"}, "spec": {"nodeAllocatableUpdatePeriodSeconds": 60}});
    let driver: Arc<bowline_api::CSIDriver> = Arc::new(serde_json::from_value(driver).unwrap());
    let waiting = |second, checked| {
        let mut seen = seen().need("a", Want::Mounted, Absent).attach(AttachSeen::NotInNodeStatus);
        let need = seen.needs.get_mut(&target("a")).unwrap();
        let text = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]: volume kubernetes.io/csi/d^h is not yet in node's status";
        need.reported = Some(Reported { text: text.into(), at: at(second), times: 9 });
        need.limit_checked = checked;
        Observed { now: at(second), csi_driver: Some(driver.clone()), ..seen }
    };
    let why = || Step::Wait(Why::NotInNodeStatus(seen().volume));
    let check = || Step::Do(Action::CheckAttachLimit(target("a")));
    assert_eq!((decide(&waiting(222, None)), next_report(&waiting(222, None))), (why(), Some(at(223))));
    assert_eq!(decide(&waiting(223, None)), check());
    assert_eq!(decide(&waiting(224, Some(at(223)))), why());
    assert_eq!(decide(&waiting(346, Some(at(223)))), check());
    let without = Observed { csi_driver: None, ..waiting(300, None) };
    assert_eq!(decide(&without), why(), "a driver without a period");
}

/// C9: what is waited for longer than ten seconds is told, again and again.
#[test]
fn a_long_wait_for_the_attachment_is_reported_with_back_off() {
    let waiting = |second| {
        let seen = seen().need("a", Want::Mounted, Absent).attach(AttachSeen::NotInNodeStatus);
        Observed { now: at(second), ..seen }
    };
    let why = || Why::NotInNodeStatus(seen().volume);
    assert_eq!(decide(&waiting(109)), Step::Wait(why()));
    assert_eq!(next_report(&waiting(109)), Some(at(110)));
    let text = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]: volume kubernetes.io/csi/d^h is not yet in node's status";
    assert_eq!(decide(&waiting(110)), Step::Do(Action::Report(target("a"), text.into())));
    let mut told = waiting(111);
    let reported = Reported { text: text.into(), at: at(110), times: 2 };
    told.needs.get_mut(&target("a")).unwrap().reported = Some(reported);
    assert_eq!((decide(&told), next_report(&told)), (Step::Wait(why()), Some(at(130))));
    let away = waiting(130).driver(DriverSeen::Missing { since: at(100) });
    let Step::Do(Action::Report(_, text)) = decide(&away) else { panic!("{:?}", decide(&away)) };
    assert!(text.ends_with("driver name d not found in the list of registered CSI drivers"), "{text}");
}
