//! What is asked and told, in tables.

use std::sync::Arc;
use std::time::Duration;

use bowline_api::{Event, PersistentVolume, PersistentVolumeClaim};
use bowline_machinery::{Identity, Step};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use bowline_proto::csi::v1::plugin_capability::service::Type as Service;
use serde_json::json;

use super::memory::Memory;
use super::model::{Action, Condition, NODE_NOT_READY, Node, NodeState, Observed, Reading, Volume, Why};
use super::role::{Flags, period, supported, warned_claim};
use super::{Key, decide};

fn volume(reading: Reading) -> Volume {
    Volume {
        object: Arc::new(PersistentVolume::default()),
        checked: true,
        handle: "v-1".into(),
        claim: Some(Arc::new(PersistentVolumeClaim::default())),
        reading,
        asks_each: true,
        warned: false,
    }
}

fn of(volume: Volume) -> Step<Action, Why> {
    decide(&Observed::Volume(Box::new(volume)))
}

fn fresh(abnormal: bool) -> Reading {
    Reading::Fresh(Condition { abnormal, message: "disk is failing".into() })
}

#[test]
fn a_bound_volume_is_asked_about_and_told_once_per_check() {
    assert_eq!(of(volume(Reading::Missing)), Step::Do(Action::Ask));
    assert_eq!(of(volume(fresh(true))), Step::Do(Action::TellAbnormal("disk is failing".into())));
    assert_eq!(of(volume(fresh(false))), Step::Do(Action::Settle));
    assert_eq!(of(volume(Reading::Told)), Step::Done);
}

#[test]
fn recovery_is_told_only_while_the_warning_is_still_there() {
    assert_eq!(of(Volume { warned: true, ..volume(fresh(false)) }), Step::Do(Action::TellNormal));
    assert_eq!(of(Volume { warned: false, ..volume(fresh(false)) }), Step::Do(Action::Settle));
    // While it is abnormal, each check says so again.
    let again = Step::Do(Action::TellAbnormal("disk is failing".into()));
    assert_eq!(of(Volume { warned: true, ..volume(fresh(true)) }), again);
}

#[test]
fn volumes_that_are_not_bound_or_not_listed_are_left_alone() {
    assert_eq!(of(Volume { checked: false, ..volume(fresh(true)) }), Step::Done);
    assert_eq!(of(Volume { handle: String::new(), ..volume(Reading::Missing) }), Step::Done);
    assert_eq!(
        of(Volume { asks_each: false, ..volume(Reading::Missing) }),
        Step::Done,
        "absent from the list"
    );
    assert_eq!(
        of(Volume { claim: None, ..volume(fresh(true)) }),
        Step::Do(Action::Settle),
        "no claim to tell"
    );
}

#[test]
fn the_list_is_asked_for_once_per_interval() {
    assert_eq!(decide(&Observed::List { asked: false }), Step::Do(Action::List));
    assert_eq!(decide(&Observed::List { asked: true }), Step::Done);
}

fn node(state: NodeState, failed: bool) -> Step<Action, Why> {
    decide(&Observed::Node(Node { name: "n".into(), state, failed, claims: Vec::new() }))
}

#[test]
fn claims_hear_of_a_node_that_is_not_ready_for_more_than_five_minutes() {
    let long = NODE_NOT_READY + Duration::from_secs(1);
    assert_eq!(node(NodeState::Ready, false), Step::Done);
    assert_eq!(node(NodeState::NotReady(NODE_NOT_READY), false), Step::Wait(Why::NotReadyYet));
    assert_eq!(node(NodeState::NotReady(long), false), Step::Do(Action::TellNodeFailed));
    assert_eq!(node(NodeState::NotReady(Duration::ZERO), true), Step::Wait(Why::NotReadyYet));
    assert_eq!(node(NodeState::NotReady(long), true), Step::Do(Action::TellNodeFailed));
    assert_eq!(node(NodeState::Ready, true), Step::Do(Action::TellNodeRecovered));
    // Upstream means to tell of a deleted node, too, and fails over the object that is gone.
    assert_eq!(node(NodeState::Deleted, false), Step::Do(Action::TellNodeFailed));
    assert_eq!(node(NodeState::Deleted, true), Step::Done);
    assert_eq!(node(NodeState::Terminated, false), Step::Do(Action::TellNodeFailed));
    assert_eq!(node(NodeState::Terminated, true), Step::Done);
}

#[test]
fn time_not_ready_counts_from_when_it_was_seen_first_and_begins_again_when_told() {
    let (memory, seconds) = (Memory::default(), Duration::from_secs);
    memory.saw("n", false, seconds(10));
    memory.saw("n", false, seconds(20));
    assert_eq!(memory.not_ready_since("n"), Some(seconds(10)));
    memory.failed("n", seconds(400));
    assert_eq!((memory.not_ready_since("n"), memory.is_failed("n")), (Some(seconds(400)), true));
    memory.saw("n", true, seconds(500));
    assert_eq!(memory.not_ready_since("n"), None);
    memory.recovered("n");
    assert!(!memory.is_failed("n") && memory.knows("n"));
    memory.forget_node("n");
    assert!(!memory.knows("n"));
}

#[test]
fn ten_volumes_are_checked_per_interval_and_each_within_the_longest_one() {
    let flags: Flags = crate::flags(&[]).unwrap();
    let minutes = |m: u64| Duration::from_secs(60 * m);
    for (volumes, expected) in [(0, 1), (1, 1), (10, 1), (11, 2), (40, 4), (50, 5), (5_000, 5)] {
        assert_eq!(period(&flags, volumes), minutes(expected), "{volumes}");
    }
    let flags: Flags = crate::flags(&["--monitor-interval=10m"]).unwrap();
    assert_eq!(period(&flags, 500), minutes(10), "never more often than --monitor-interval");
}

#[test]
fn only_warnings_about_an_abnormal_volume_are_looked_up() {
    let event = |type_: &str, reason: &str| -> Event {
        let about = json!({"uid": "claim-uid"});
        serde_json::from_value(json!({"metadata": {"name": "e"}, "type": type_, "reason": reason,
            "involvedObject": about}))
        .unwrap()
    };
    assert_eq!(warned_claim(&event("Warning", "VolumeConditionAbnormal")), ["claim-uid"]);
    assert!(warned_claim(&event("Normal", "VolumeConditionAbnormal")).is_empty());
    assert!(warned_claim(&event("Warning", "FailedMount")).is_empty());
}

#[test]
fn a_driver_that_cannot_tell_conditions_is_refused() {
    let identity = |services: &[Service], rpcs: &[Rpc]| Identity {
        name: "d.example".into(),
        services: services.iter().map(|service| *service as i32).collect(),
        controller: rpcs.iter().map(|rpc| *rpc as i32).collect(),
    };
    let controller = [Service::ControllerService];
    assert!(supported(&identity(&controller, &[Rpc::VolumeCondition, Rpc::ListVolumes])).is_ok());
    assert!(supported(&identity(&controller, &[Rpc::VolumeCondition, Rpc::GetVolume])).is_ok());
    for (services, rpcs, lacking) in [
        (&[][..], &[Rpc::VolumeCondition, Rpc::ListVolumes][..], "CONTROLLER_SERVICE"),
        (&controller, &[Rpc::ListVolumes, Rpc::GetVolume], "VOLUME_CONDITION"),
        (&controller, &[Rpc::VolumeCondition], "LIST_VOLUMES or GET_VOLUME"),
    ] {
        let error = supported(&identity(services, rpcs)).unwrap_err().to_string();
        assert!(error.contains(lacking), "{error}");
    }
}

#[test]
fn keys_name_what_they_are() {
    assert_eq!(Key::Volume("pv".into()).to_string(), "persistentvolume pv");
}
