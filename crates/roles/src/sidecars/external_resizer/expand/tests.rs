//! The decision tables of the reference (sidecars.md 4.3, 4.4), its edge cases, and RES-1 as a property.

mod patches;
mod wakes;

use std::sync::Arc;

use bowline_api::expansion::{
    CONTROLLER_RESIZE_IN_PROGRESS as IN_PROGRESS, CONTROLLER_RESIZE_INFEASIBLE as INFEASIBLE,
    FILE_SYSTEM_RESIZE_PENDING, NODE_RESIZE_IN_PROGRESS as NODE_IN_PROGRESS,
    NODE_RESIZE_INFEASIBLE as NODE_INFEASIBLE, NODE_RESIZE_PENDING as NODE_PENDING, RESIZING, allocated,
};
use bowline_api::{PersistentVolume, PersistentVolumeClaim, Pod, bytes_of, keys};
use bowline_machinery::Step;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decide::decide;
use super::model::{Action, Attempt, Expansion, Observed, Outcome, Settings, Why};

const DRIVER: &str = "d.example";

fn q(text: &str) -> Quantity {
    Quantity(text.into())
}

/// A bound claim of 1Gi, and what is around it.
#[derive(Debug)]
struct Case {
    claim: Value,
    volume: Value,
    expansion: Expansion,
    driver: &'static str,
    user: bool,
    attempt: Attempt,
}

fn asks(spec: &str) -> Case {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "ns", "uid": "uid-1", "resourceVersion": "7"},
        "spec": {"volumeName": "pv-1", "resources": {"requests": {"storage": spec}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    let volume = json!({
        "metadata": {"name": "pv-1", "resourceVersion": "5"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "uid-1"},
            "csi": {"driver": DRIVER, "volumeHandle": "vol-1"},
        },
    });
    let expansion = Expansion::Controller;
    Case { claim, volume, expansion, driver: DRIVER, user: false, attempt: Attempt::default() }
}

impl Case {
    fn claim(mut self, path: &str, value: Value) -> Self {
        *self.claim.pointer_mut(path).unwrap() = value;
        self
    }
    fn volume(mut self, path: &str, value: Value) -> Self {
        *self.volume.pointer_mut(path).unwrap() = value;
        self
    }
    fn has(self, size: &str) -> Self {
        self.volume("/spec/capacity/storage", json!(size))
    }
    fn alloc(mut self, size: &str) -> Self {
        self.claim["status"]["allocatedResources"] = json!({"storage": size});
        self
    }
    fn st(mut self, status: &str) -> Self {
        self.claim["status"]["allocatedResourceStatuses"] = json!({"storage": status});
        self
    }
    fn condition(mut self, type_: &str) -> Self {
        let status = &mut self.claim["status"];
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.push(json!({"type": type_, "status": "True"}));
        status["conditions"] = json!(conditions);
        self
    }
    fn marked(self, size: &str, status: &str) -> Self {
        self.alloc(size).st(status).condition(RESIZING)
    }
    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.claim["metadata"]["annotations"] = json!({key: value});
        self
    }
    fn node_only(self) -> Self {
        Self { expansion: Expansion::NodeOnly, ..self }
    }
    fn attempt(self, attempt: Attempt) -> Self {
        Self { attempt, ..self }
    }
    fn refused(mut self) -> Self {
        self.attempt.refused = true;
        self
    }
    fn slow(mut self) -> Self {
        self.attempt.slow = true;
        self
    }
    fn offline_only(mut self) -> Self {
        self.attempt.offline_only = true;
        self
    }
    fn used(self) -> Self {
        Self { user: true, ..self }
    }
    fn answered(mut self, target: &str, size: &str, node: bool) -> Self {
        self.attempt.outcome = Some(Outcome::Expanded { target: q(target), size: q(size), node });
        self
    }
    fn seen(&self) -> Observed {
        let claim: PersistentVolumeClaim = serde_json::from_value(self.claim.clone()).unwrap();
        let volume: PersistentVolume = serde_json::from_value(self.volume.clone()).unwrap();
        Observed {
            settings: Arc::new(Settings { driver: self.driver.into(), expansion: self.expansion }),
            claim: Arc::new(claim),
            volume: Some(Arc::new(volume)),
            user: self.user.then(|| Arc::new(Pod::default())),
            attempt: self.attempt.clone(),
        }
    }
    fn decision(&self) -> Step<Action, Why> {
        decide(&self.seen())
    }
}

fn mark(size: &str) -> Step<Action, Why> {
    Step::Do(Action::Mark { target: q(size), fresh: true })
}
fn mark_again(size: &str) -> Step<Action, Why> {
    Step::Do(Action::Mark { target: q(size), fresh: false })
}
fn expand(size: &str) -> Step<Action, Why> {
    Step::Do(Action::Expand { target: q(size) })
}

fn check<const N: usize>(table: [(&str, Case, Step<Action, Why>); N]) {
    for (name, case, expected) in table {
        assert_eq!(case.decision(), expected, "{name}");
    }
}

#[test]
fn which_claims_need_work() {
    let missing =
        Why::VolumeMissing { claim: bowline_api::ObjectKey::new("ns", "data"), volume: "pv-1".into() };
    check([
        ("asks for more", asks("2Gi"), mark("2Gi")),
        ("asks for what it has", asks("1Gi"), Step::Done),
        ("the same in another notation", asks("1024Mi"), Step::Done),
        ("not bound", asks("2Gi").claim("/status/phase", json!("Pending")), Step::Done),
        ("no volume named", asks("2Gi").claim("/spec/volumeName", json!("")), Step::Done),
        ("another driver", asks("2Gi").volume("/spec/csi/driver", json!("other")), Step::Done),
        ("not a CSI volume", asks("2Gi").volume("/spec/csi", Value::Null), Step::Done),
    ]);
    let unseen = Observed { volume: None, ..asks("2Gi").seen() };
    assert_eq!(decide(&unseen), Step::Wait(missing), "edge 4.8.9: it is woken when the volume appears");
    let migrated = Case { driver: "ebs.csi.aws.com", ..asks("2Gi").volume("/spec/csi", Value::Null) };
    let migrated = migrated.annotated(keys::STORAGE_RESIZER, "ebs.csi.aws.com");
    assert!(matches!(migrated.decision(), Step::Wait(Why::InTree { .. })), "refused, not ignored");
}

#[test]
fn edge_4_8_10_a_volume_that_refers_to_another_claim_is_skipped() {
    let table = [("/spec/claimRef/uid", "uid-2"), ("/spec/claimRef/namespace", "other")];
    for (path, value) in table {
        assert_eq!(asks("2Gi").volume(path, json!(value)).decision(), Step::Done, "{path}");
    }
    assert_eq!(asks("2Gi").volume("/spec/claimRef", Value::Null).decision(), Step::Done);
}

/// The size, as the mark or the call that follows shows it. 3Gi is asked for; 2Gi was worked towards before.
#[test]
fn which_size_while_the_volume_is_smaller_than_the_request() {
    let case = || asks("3Gi");
    check([
        ("no status", case(), mark("3Gi")),
        ("no status, allocated", case().alloc("2Gi"), mark("3Gi")),
        ("infeasible", case().marked("2Gi", INFEASIBLE), mark("3Gi")),
        ("node infeasible", case().marked("2Gi", NODE_INFEASIBLE), expand("2Gi")),
        ("node infeasible, not allocated", case().st(NODE_INFEASIBLE), mark("3Gi")),
        ("node pending, volume smaller", case().marked("2Gi", NODE_PENDING), expand("2Gi")),
        ("node pending, volume has it", case().has("2Gi").marked("2Gi", NODE_PENDING), Step::Done),
        ("node at work, volume has it", case().has("2Gi").marked("2Gi", NODE_IN_PROGRESS), Step::Done),
        ("node pending, not allocated", case().st(NODE_PENDING), mark("3Gi")),
        ("in progress", case().marked("2Gi", IN_PROGRESS), expand("2Gi")),
        ("in progress, refused for good", case().marked("2Gi", IN_PROGRESS).refused(), mark("3Gi")),
        ("in progress, not allocated", case().st(IN_PROGRESS), mark("3Gi")),
        ("a state of a later version", case().marked("2Gi", "Unheard"), mark("3Gi")),
    ]);
}

/// 2Gi is asked for and the volume has 3Gi.
#[test]
fn which_size_when_the_volume_has_what_is_asked_for() {
    let case = || asks("2Gi").has("3Gi");
    check([
        ("node pending", case().marked("3Gi", NODE_PENDING), Step::Done),
        ("node at work", case().marked("3Gi", NODE_IN_PROGRESS), Step::Done),
        ("node infeasible", case().marked("3Gi", NODE_INFEASIBLE), expand("3Gi")),
        ("node infeasible, node only", case().marked("3Gi", NODE_INFEASIBLE).node_only(), mark("2Gi")),
        ("in progress", case().marked("3Gi", IN_PROGRESS), expand("3Gi")),
        ("infeasible", case().marked("3Gi", INFEASIBLE), expand("3Gi")),
        ("in progress, not allocated", case().st(IN_PROGRESS), mark("2Gi")),
        ("no status, allocated", case().alloc("3Gi"), mark_again("3Gi")),
        // What the claim has already is not pursued again: it would never reach the request.
        ("no status, allocated and complete", case().alloc("1Gi"), mark("2Gi")),
        ("no status", case(), mark("2Gi")),
    ]);
}

#[test]
fn edge_4_8_1_a_lowered_request_waits_for_the_size_that_may_have_landed() {
    let lowered = || asks("2Gi").marked("3Gi", IN_PROGRESS);
    check([
        ("after a timeout", lowered(), expand("3Gi")),
        ("after a final error", lowered().refused(), mark("2Gi")),
        ("after a restart", lowered().attempt(Attempt::default()), expand("3Gi")),
    ]);
}

#[test]
fn edge_4_8_2_a_raised_request_waits_for_the_node() {
    let raised = || asks("3Gi").has("2Gi");
    check([
        ("pending", raised().marked("2Gi", NODE_PENDING), Step::Done),
        ("at work", raised().marked("2Gi", NODE_IN_PROGRESS), Step::Done),
    ]);
}

#[test]
fn edge_4_8_3_a_partly_expanded_volume_keeps_its_size_unless_only_nodes_expand() {
    let partly = || asks("2Gi").has("3Gi").marked("3Gi", NODE_INFEASIBLE);
    check([("controller", partly(), expand("3Gi")), ("node only", partly().node_only(), mark("2Gi"))]);
}

#[test]
fn edge_4_8_4_an_infeasible_size_rests_and_another_one_is_tried_at_once() {
    let waits = Step::Wait(Why::Infeasible(bowline_api::ObjectKey::new("ns", "data")));
    let refused = || asks("3Gi").marked("3Gi", INFEASIBLE).refused();
    check([
        ("the same size", refused().slow(), waits),
        ("the same size, rested", refused(), expand("3Gi")),
        (
            "a lower size",
            refused().slow().claim("/spec/resources/requests/storage", json!("2Gi")),
            mark("2Gi"),
        ),
        (
            "a higher size",
            refused().slow().claim("/spec/resources/requests/storage", json!("4Gi")),
            mark("4Gi"),
        ),
        ("after a restart", asks("3Gi").marked("3Gi", INFEASIBLE), expand("3Gi")),
    ]);
}

#[test]
fn edge_4_8_6_a_volume_in_use_that_was_refused_is_left_alone_until_it_is_free() {
    let marked = || asks("2Gi").marked("2Gi", IN_PROGRESS).refused();
    let (claim, driver) = (bowline_api::ObjectKey::new("ns", "data"), DRIVER.to_owned());
    check([
        ("in use", marked().offline_only().used(), Step::Wait(Why::InUse { claim, driver })),
        ("free", marked().offline_only(), expand("2Gi")),
        ("in use, never refused for that", marked().used(), expand("2Gi")),
        ("the status comes first", asks("2Gi").offline_only().used(), mark("2Gi")),
    ]);
}

#[test]
fn edge_4_8_15_a_server_without_statuses_relies_on_the_condition() {
    let condition = |case: Case| case.condition(RESIZING).condition(FILE_SYSTEM_RESIZE_PENDING);
    check([
        ("pending on the node", condition(asks("2Gi").has("2Gi")), Step::Done),
        ("a state of a later version", condition(asks("2Gi").has("2Gi")).st("Unheard"), Step::Done),
        ("not pending", asks("2Gi").has("2Gi").condition(RESIZING), mark("2Gi")),
    ]);
}

#[test]
fn the_size_stands_in_the_status_before_the_driver_is_asked() {
    check([
        ("no condition", asks("2Gi").alloc("2Gi").st(IN_PROGRESS), mark_again("2Gi")),
        (
            "an annotation of the expansion before",
            asks("2Gi").marked("2Gi", IN_PROGRESS).annotated(keys::NODE_EXPANSION_NOT_REQUIRED, "true"),
            mark_again("2Gi"),
        ),
        ("marked", asks("2Gi").marked("2Gi", IN_PROGRESS), expand("2Gi")),
    ]);
}

#[test]
fn what_follows_an_answer() {
    let marked = || asks("2Gi").marked("2Gi", IN_PROGRESS);
    let update = |size: &str| Step::Do(Action::UpdateVolume { size: q(size) });
    let done = |size: &str| Step::Do(Action::MarkDone { size: q(size) });
    let refused = Outcome::Refused { target: q("2Gi"), infeasible: true, code: 11, message: "no".into() };
    let with = |case: Case| Case {
        attempt: Attempt { outcome: Some(refused.clone()), ..case.attempt.clone() },
        ..case
    };
    check([
        ("the volume comes first", marked().answered("2Gi", "2Gi", true), update("2Gi")),
        ("also if the driver gave more", marked().has("2Gi").answered("2Gi", "3Gi", false), update("3Gi")),
        (
            "then the kubelet",
            marked().has("2Gi").answered("2Gi", "2Gi", true),
            Step::Do(Action::MarkNodePending),
        ),
        ("or the claim", marked().has("2Gi").answered("2Gi", "2Gi", false), done("2Gi")),
        (
            "the request was lowered meanwhile",
            asks("1.5Gi").marked("2Gi", IN_PROGRESS).has("2Gi").answered("2Gi", "2Gi", true),
            Step::Do(Action::MarkNodePending),
        ),
        (
            "handed over without our knowing",
            asks("2Gi").marked("2Gi", NODE_PENDING).has("2Gi").answered("2Gi", "2Gi", true),
            Step::Done,
        ),
        (
            "an answer for another size is not this one's",
            asks("3Gi").marked("3Gi", IN_PROGRESS).answered("2Gi", "2Gi", false),
            expand("3Gi"),
        ),
        (
            "the kubelet has finished and the request was raised",
            asks("3Gi").alloc("2Gi").has("2Gi").answered("2Gi", "2Gi", true),
            mark("3Gi"),
        ),
        ("a refusal is written down", with(marked()), Step::Do(Action::MarkRefused)),
        ("unless it is about another size", with(asks("3Gi").marked("3Gi", IN_PROGRESS)), expand("3Gi")),
    ]);
}

fn size() -> impl Strategy<Value = String> {
    (1i64..5).prop_map(|gib| format!("{gib}Gi"))
}

prop_compose! {
    fn any_case()(
        (spec, volume) in (size(), size()),
        alloc in prop::option::of(size()),
        st in prop::option::of(prop_oneof![
            Just(IN_PROGRESS), Just(INFEASIBLE), Just(NODE_PENDING), Just(NODE_IN_PROGRESS), Just(NODE_INFEASIBLE)
        ]),
        (resizing, refused, slow, offline_only, used) in any::<(bool, bool, bool, bool, bool)>(),
        node_only in any::<bool>(),
        answer in prop::option::of((size(), size(), any::<bool>())),
    ) -> Case {
        let mut case = asks(&spec).has(&volume);
        if let Some(alloc) = &alloc { case = case.alloc(alloc); }
        if let Some(st) = st { case = case.st(st); }
        if resizing { case = case.condition(RESIZING); }
        if node_only { case = case.node_only(); }
        if let Some((target, size, node)) = &answer {
            // The driver never confirms less than it was asked for: such an answer is refused where it is heard.
            if bytes_of(&q(size)).unwrap() >= bytes_of(&q(target)).unwrap() { case = case.answered(target, size, *node); }
        }
        case.attempt = Attempt { refused, slow, offline_only, ..case.attempt };
        case.user = used;
        case
    }
}

proptest! {
    /// RES-1: whatever crashed or was changed before, the driver is only asked for the size in the status, and that is more
    /// than the claim has.
    #[test]
    fn asks_only_for_the_size_in_the_status(case in any_case()) {
        let seen = case.seen();
        if let Step::Do(Action::Expand { target }) = decide(&seen) {
            prop_assert_eq!(Some(bytes_of(&target)), allocated(&seen.claim).map(bytes_of));
        }
    }

    /// RES-1: a size whose call may have landed is not given up for a smaller one.
    #[test]
    fn gives_up_no_size_that_may_have_landed(case in any_case()) {
        let seen = case.seen();
        let open = !seen.attempt.refused && seen.attempt.outcome.is_none()
            && bowline_api::expansion::resize_status(&seen.claim) == IN_PROGRESS;
        if let (true, Some(alloc), Step::Do(Action::Mark { target, .. })) =
            (open, allocated(&seen.claim), decide(&seen))
        {
            prop_assert_eq!(bytes_of(&target), bytes_of(alloc), "{:?}", seen);
        }
    }

    /// RES-1: only what the driver confirmed is written into the volume and the claim.
    #[test]
    fn writes_only_confirmed_sizes(case in any_case()) {
        let seen = case.seen();
        if let Step::Do(Action::UpdateVolume { size } | Action::MarkDone { size }) = decide(&seen) {
            let Some(Outcome::Expanded { size: confirmed, .. }) = seen.attempt.outcome else {
                return Err(TestCaseError::fail("without an answer"));
            };
            prop_assert_eq!(size, confirmed);
        }
    }
}
