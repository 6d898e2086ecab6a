//! When a volume is expanded on its node, and what its claim then says.

use bowline_api::{PersistentVolumeClaim, expansion};
use serde_json::Value;

use super::super::model::{ExpandFailure, Expanded, SizeSeen};
use super::*;

const GI: i64 = 1 << 30;

/// A claim that was promised 1Gi; its volume has 2Gi.
fn claim(status: Value) -> Arc<PersistentVolumeClaim> {
    let mut all = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    all.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    let value = json!({"metadata": {"name": "c", "namespace": "default", "uid": "u"}, "status": all});
    Arc::new(serde_json::from_value(value).unwrap())
}

fn at_state(state: &str) -> Arc<PersistentVolumeClaim> {
    claim(json!({
        "allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": state},
    }))
}

fn size(claim: Arc<PersistentVolumeClaim>) -> SizeSeen {
    SizeSeen { claim, known: GI, in_use_error: false, ended: None, failures: 0 }
}

/// A pod has the volume, or its mount is almost complete.
fn published(presence: Presence, size: SizeSeen) -> Observed {
    let mut seen = seen().need("a", Want::Mounted, presence).staged(Present).access_mode("ReadWriteOnce");
    seen.sizes.insert("pv".into(), size);
    seen
}

fn ended(failure: Option<ExpandFailure>) -> Option<Expanded> {
    Some(Expanded { bytes: 2 * GI, failure })
}

fn failure() -> Option<ExpandFailure> {
    Some(ExpandFailure { code: 13, message: "as planned".into(), infeasible: false })
}

#[test]
fn edge_9_3_15_only_what_the_controller_left_to_the_node_is_expanded() {
    let expand = || Step::Do(Action::Expand(target("a"), 2 * GI));
    let settle = || Step::Do(Action::Settle(target("a")));
    let begin = || Step::Do(Action::BeginExpand(target("a")));
    let table = [
        ("pending", at_state(expansion::NODE_RESIZE_PENDING), begin(), begin()),
        (
            "in progress, perhaps of an earlier process",
            at_state(expansion::NODE_RESIZE_IN_PROGRESS),
            expand(),
            expand(),
        ),
        ("the controller is at it", at_state(expansion::CONTROLLER_RESIZE_IN_PROGRESS), Step::Done, settle()),
        ("the controller cannot", at_state(expansion::CONTROLLER_RESIZE_INFEASIBLE), Step::Done, settle()),
        ("the node cannot", at_state(expansion::NODE_RESIZE_INFEASIBLE), Step::Done, settle()),
        ("a resizer without these states", claim(json!({})), expand(), expand()),
        (
            "allocated, but no state yet",
            claim(json!({"allocatedResources": {"storage": "2Gi"}})),
            Step::Done,
            settle(),
        ),
        (
            "promised already, and nothing is under way",
            claim(json!({"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}})),
            settle(),
            settle(),
        ),
    ];
    for (what, claim, mounted, mounting) in table {
        assert_eq!(decide(&published(Present, size(claim.clone()))), mounted, "{what}, mounted");
        assert_eq!(decide(&published(Unexpanded, size(claim))), mounting, "{what}, being mounted");
    }
}

#[test]
fn edge_9_3_15_the_allocated_size_counts_and_not_the_volumes() {
    let larger = claim(json!({
        "allocatedResources": {"storage": "1536Mi"},
        "allocatedResourceStatuses": {"storage": expansion::NODE_RESIZE_IN_PROGRESS},
    }));
    let expected = Step::Do(Action::Expand(target("a"), 3 * GI / 2));
    assert_eq!(decide(&published(Present, size(larger))), expected);
}

#[test]
fn the_ends_of_an_expansion_are_written_before_it_is_tried_again() {
    let at = |ended, state: &str| SizeSeen { ended, ..size(at_state(state)) };
    let (in_progress, pending) = (expansion::NODE_RESIZE_IN_PROGRESS, expansion::NODE_RESIZE_PENDING);
    let old = Some(Expanded { bytes: GI, failure: None });
    let table = [
        ("done", at(ended(None), in_progress), Action::FinishExpand(target("a"))),
        ("failed for good", at(ended(failure()), in_progress), Action::FailExpand(target("a"))),
        ("done for another size", at(old, in_progress), Action::Expand(target("a"), 2 * GI)),
        ("asked for again", at(ended(failure()), pending), Action::BeginExpand(target("a"))),
    ];
    for (what, size, expected) in table {
        for presence in [Present, Unexpanded] {
            let step = decide(&published(presence, size.clone()));
            assert_eq!(step, Step::Do(expected.clone()), "{what}, {presence:?}");
        }
    }
}

/// Reference 6.4: FailedPrecondition neither repeats nor blocks the mount.
#[test]
fn edge_9_3_15_a_volume_that_cannot_grow_in_use_is_left_alone_and_mounted() {
    let size = SizeSeen { in_use_error: true, ..size(at_state(expansion::NODE_RESIZE_IN_PROGRESS)) };
    assert_eq!(decide(&published(Present, size.clone())), Step::Done);
    assert_eq!(decide(&published(Unexpanded, size)), Step::Do(Action::Settle(target("a"))));
}

#[test]
fn edge_9_3_15_further_nodes_of_a_shared_volume_expand_without_writing() {
    let done = json!({"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}});
    let shared = |claim| published(Present, size(claim)).access_mode("ReadWriteMany");
    let expand = Step::Do(Action::Expand(target("a"), 2 * GI));
    assert_eq!(decide(&shared(claim(done.clone()))), expand);
    let mut answered = shared(claim(done.clone()));
    answered.sizes.get_mut("pv").unwrap().ended = ended(None);
    assert_eq!(decide(&answered), Step::Do(Action::Settle(target("a"))));
    let mut needless = (*claim(done)).clone();
    let annotations = needless.metadata.annotations.get_or_insert_default();
    annotations.insert(bowline_api::keys::NODE_EXPANSION_NOT_REQUIRED.into(), "true".into());
    assert_eq!(decide(&shared(Arc::new(needless))), Step::Do(Action::Settle(target("a"))));
}

#[test]
fn a_driver_without_expand_volume_is_asked_only_where_its_refusal_must_be_written() {
    let unable = |seen: Observed| seen.driver(DriverSeen::Registered { stages: true, expands: false });
    let expand = Step::Do(Action::Expand(target("a"), 2 * GI));
    assert_eq!(
        decide(&unable(published(Present, size(at_state(expansion::NODE_RESIZE_IN_PROGRESS))))),
        expand
    );
    let settle = Step::Do(Action::Settle(target("a")));
    assert_eq!(decide(&unable(published(Present, size(claim(json!({})))))), settle);
}

#[test]
fn what_is_mounted_read_only_is_not_expanded() {
    let mut seen = published(Unexpanded, size(at_state(expansion::NODE_RESIZE_PENDING)));
    seen.needs.get_mut(&target("a")).unwrap().read_only = true;
    assert_eq!(decide(&seen), Step::Do(Action::SettleReadOnly(target("a"))));
    seen.needs.get_mut(&target("a")).unwrap().presence = Present;
    assert_eq!(decide(&seen), Step::Done);
}

#[test]
fn an_expansion_that_fails_holds_up_no_other_pod() {
    let mut seen = published(Present, size(at_state(expansion::NODE_RESIZE_IN_PROGRESS)));
    let expand = Step::Do(Action::Expand(target("a"), 2 * GI));
    assert_eq!(decide(&seen), expand);
    seen = seen.need("b", Want::Mounted, Absent);
    assert_eq!(decide(&seen), Step::Do(Action::Publish(target("b"))));
    assert_eq!(decide(&seen.failed("b", 1)), expand, "nor is it held up by one");
}

pub(super) fn any_size() -> impl Strategy<Value = SizeSeen> {
    let states = [
        expansion::NODE_RESIZE_PENDING,
        expansion::NODE_RESIZE_IN_PROGRESS,
        expansion::NODE_RESIZE_INFEASIBLE,
        expansion::CONTROLLER_RESIZE_IN_PROGRESS,
    ];
    let state = prop::option::of(prop::sample::select(states.to_vec()));
    let ended = prop_oneof![Just(None), Just(ended(None)), Just(ended(failure()))];
    (state, any::<bool>(), ended, any::<bool>()).prop_map(|(state, promised, ended, in_use_error)| {
        let claim = match (state, promised) {
            (Some(state), _) => at_state(state),
            (None, true) => claim(json!({"capacity": {"storage": "2Gi"}})),
            (None, false) => claim(json!({})),
        };
        SizeSeen { ended, in_use_error, ..size(claim) }
    })
}

/// What an action of an expansion leaves.
pub(super) fn apply(seen: &mut Observed, action: &Action, certain: bool) {
    let settle = |seen: &mut Observed, target: &Target| {
        seen.needs.get_mut(target).unwrap().presence = Present;
        let size = seen.sizes.get_mut("pv").unwrap();
        (size.known, size.ended) = (2 * GI, None);
    };
    match action {
        Action::BeginExpand(_) if certain => {
            seen.sizes.get_mut("pv").unwrap().claim = at_state(expansion::NODE_RESIZE_IN_PROGRESS);
        }
        Action::Expand(_, bytes) if certain => {
            seen.sizes.get_mut("pv").unwrap().ended = Some(Expanded { bytes: *bytes, failure: None });
        }
        Action::FinishExpand(target) => {
            seen.sizes.get_mut("pv").unwrap().claim = claim(json!({"capacity": {"storage": "2Gi"}}));
            settle(seen, target);
        }
        Action::FailExpand(_) => {
            let size = seen.sizes.get_mut("pv").unwrap();
            (size.claim, size.ended) = (at_state(expansion::NODE_RESIZE_INFEASIBLE), None);
        }
        Action::Settle(target) | Action::SettleReadOnly(target) => settle(seen, target),
        _ => {}
    }
}
