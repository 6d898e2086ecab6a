//! The decision table of the reference (sidecars.md 4.5), its edge cases, and what is written into a claim's status.

mod patches;

use std::sync::Arc;

use bowline_api::expansion::{MODIFY_VOLUME_ERROR, MODIFYING_VOLUME};
use bowline_api::{ObjectKey, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};
use bowline_machinery::{Change, Step};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decide::decide;
use super::model::{Action, Attempt, Failure, Observed, Outcome, Settings, Why};
use super::role::matters;

const DRIVER: &str = "d.example";

/// A bound claim whose volume has the class `old`; the classes `old`, `gold` and `silver` exist.
#[derive(Debug)]
struct Case {
    claim: Value,
    volume: Value,
    attempt: Attempt,
}

fn wants(class: &str) -> Case {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "ns", "uid": "uid-1", "resourceVersion": "7"},
        "spec": {"volumeName": "pv-1", "volumeAttributesClassName": class},
        "status": {"phase": "Bound", "currentVolumeAttributesClassName": "old"},
    });
    let volume = json!({
        "metadata": {"name": "pv-1", "resourceVersion": "5"},
        "spec": {"volumeAttributesClassName": "old", "csi": {"driver": DRIVER, "volumeHandle": "vol-1"}},
    });
    Case { claim, volume, attempt: Attempt::default() }
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
    fn status(mut self, status: &str, target: &str) -> Self {
        self.claim["status"]["modifyVolumeStatus"] =
            json!({"status": status, "targetVolumeAttributesClassName": target});
        self
    }
    fn condition(mut self, type_: &str) -> Self {
        let status = &mut self.claim["status"];
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.push(json!({"type": type_, "status": "True"}));
        status["conditions"] = json!(conditions);
        self
    }
    fn in_progress(self, target: &str) -> Self {
        self.status("InProgress", target).condition(MODIFYING_VOLUME)
    }
    fn certain(mut self) -> Self {
        self.attempt.certain = true;
        self
    }
    fn slow(mut self) -> Self {
        self.attempt.slow = true;
        self
    }
    fn modified(mut self, target: &str) -> Self {
        self.attempt.outcome = Some(Outcome::Modified { target: target.into() });
        self
    }
    fn failed(mut self, target: &str) -> Self {
        let failure = Failure { last: true, infeasible: false, code: 13, message: "no".into() };
        self.attempt.outcome = Some(Outcome::Failed { target: target.into(), failure });
        self
    }
    fn object(&self) -> PersistentVolumeClaim {
        serde_json::from_value(self.claim.clone()).unwrap()
    }
    fn seen(&self) -> Observed {
        let (claim, volume) =
            (self.object(), serde_json::from_value::<PersistentVolume>(self.volume.clone()));
        let named = |name: &str| ["old", "gold", "silver"].contains(&name).then(|| class(name));
        Observed {
            settings: Arc::new(Settings { driver: DRIVER.into(), extra_metadata: false }),
            wanted: named(bowline_api::volume::claim_attributes_class(&claim)),
            target: named(bowline_api::expansion::modify_target(&claim)),
            claim: Arc::new(claim),
            volume: Some(Arc::new(volume.unwrap())),
            attempt: self.attempt.clone(),
        }
    }
}

fn class(name: &str) -> Arc<VolumeAttributesClass> {
    let class = json!({"metadata": {"name": name}, "driverName": DRIVER, "parameters": {"iops": name}});
    Arc::new(serde_json::from_value(class).unwrap())
}
fn modify(name: &str) -> Step<Action, Why> {
    Step::Do(Action::Modify { class: class(name) })
}
fn mark() -> Step<Action, Why> {
    Step::Do(Action::MarkInProgress)
}
fn missing(name: &str) -> Step<Action, Why> {
    Step::Wait(Why::ClassMissing(name.into()))
}

fn check<const N: usize>(table: [(&str, Case, Step<Action, Why>); N]) {
    for (name, case, expected) in table {
        assert_eq!(decide(&case.seen()), expected, "{name}");
    }
}

#[test]
fn which_claims_need_work() {
    check([
        ("another class", wants("gold"), mark()),
        ("the class it has", wants("old"), Step::Done),
        ("not bound", wants("gold").claim("/status/phase", json!("Pending")), Step::Done),
        ("no volume named", wants("gold").claim("/spec/volumeName", json!("")), Step::Done),
        ("another driver", wants("gold").volume("/spec/csi/driver", json!("other")), Step::Done),
        ("not a CSI volume", wants("gold").volume("/spec/csi", Value::Null), Step::Done),
    ]);
    let unseen = Observed { volume: None, ..wants("gold").seen() };
    assert!(matches!(decide(&unseen), Step::Wait(Why::VolumeMissing { .. })));
}

#[test]
fn which_class_is_worked_towards() {
    check([
        ("not marked with the condition", wants("gold").status("InProgress", "gold").certain(), mark()),
        ("marked", wants("gold").in_progress("gold").certain(), modify("gold")),
        ("pending, and the class is there now", wants("gold").status("Pending", ""), mark()),
        ("infeasible, rested", wants("gold").status("Infeasible", "gold"), mark()),
        ("infeasible, another class", wants("silver").status("Infeasible", "gold").slow(), mark()),
        (
            "infeasible, the same class",
            wants("gold").status("Infeasible", "gold").slow(),
            Step::Wait(Why::Infeasible(ObjectKey::new("ns", "data"))),
        ),
        ("back to the class it has, after a refusal", wants("old").status("Infeasible", "gold"), mark()),
        ("a class that is not there", wants("none"), Step::Do(Action::MarkPending)),
        ("the same, said already", wants("none").status("Pending", ""), missing("none")),
    ]);
}

#[test]
fn edge_4_8_11_a_class_that_may_have_been_applied_is_finished_first() {
    check([
        ("after an uncertain error", wants("silver").in_progress("gold"), modify("gold")),
        ("after a final error", wants("silver").in_progress("gold").certain(), mark()),
        ("its class is gone", wants("silver").in_progress("gone"), missing("gone")),
    ]);
}

#[test]
fn edge_4_8_12_without_a_class_nothing_new_is_begun() {
    check([
        (
            "infeasible",
            wants("").status("Infeasible", "gold").condition(MODIFYING_VOLUME),
            Step::Do(Action::Cancel),
        ),
        ("infeasible, said already", wants("").status("Infeasible", "gold"), Step::Done),
        ("pending", wants("").status("Pending", "gold"), Step::Done),
        ("in progress, uncertain", wants("").in_progress("gold"), modify("gold")),
        ("in progress, refused", wants("").in_progress("gold").certain(), modify("gold")),
    ]);
}

#[test]
fn edge_4_8_13_after_a_restart_what_is_in_progress_is_uncertain() {
    let case = wants("silver").in_progress("gold");
    assert_eq!(case.attempt, Attempt::default(), "nothing is remembered");
    assert_eq!(decide(&case.seen()), modify("gold"));
}

#[test]
fn what_follows_an_answer() {
    let update = Step::Do(Action::UpdateVolume { target: "gold".into() });
    let volume = |case: Case| case.volume("/spec/volumeAttributesClassName", json!("gold"));
    let done = Step::Do(Action::MarkDone { target: "gold".into() });
    check([
        ("the volume comes first", wants("gold").in_progress("gold").modified("gold"), update.clone()),
        (
            "also if another class is wanted meanwhile",
            wants("silver").in_progress("gold").modified("gold"),
            update,
        ),
        ("then the claim", volume(wants("gold").in_progress("gold").modified("gold")), done),
        (
            "a failure is written down",
            wants("gold").in_progress("gold").failed("gold"),
            Step::Do(Action::MarkFailed),
        ),
        (
            "unless it is about another class",
            wants("silver").in_progress("silver").failed("gold"),
            modify("silver"),
        ),
        ("or is written down already", wants("gold").status("Infeasible", "gold").failed("gold"), mark()),
    ]);
}

#[test]
fn our_own_conditions_do_not_wake_us() {
    let base = || wants("gold").in_progress("gold");
    let table = [
        ("an error condition", base().condition(MODIFY_VOLUME_ERROR), false),
        ("another class", base().claim("/spec/volumeAttributesClassName", json!("silver")), true),
        ("complete", base().claim("/status/modifyVolumeStatus", Value::Null), true),
        ("bound", base().claim("/status/phase", json!("Lost")), true),
    ];
    for (name, new, wakes) in table {
        let change = Change { old: Some(Arc::new(base().object())), new: Some(Arc::new(new.object())) };
        assert_eq!(matters(&change), wakes, "{name}");
    }
}

proptest! {
    /// While a call may be under way, no other class is sent, whatever the claim asks for.
    #[test]
    fn sends_no_second_class_beside_one_that_may_be_under_way(
        wanted in prop_oneof![Just("old"), Just("gold"), Just("silver"), Just("none"), Just("")],
        target in prop_oneof![Just("gold"), Just("silver")],
        (slow, condition) in any::<(bool, bool)>(),
    ) {
        let mut case = wants(wanted).status("InProgress", target);
        if condition { case = case.condition(MODIFYING_VOLUME); }
        case.attempt.slow = slow;
        match decide(&case.seen()) {
            Step::Do(Action::Modify { class: sent }) => prop_assert_eq!(sent, class(target)),
            Step::Do(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
            Step::Wait(_) | Step::Fail(_) | Step::Done => {}
        }
    }
}
