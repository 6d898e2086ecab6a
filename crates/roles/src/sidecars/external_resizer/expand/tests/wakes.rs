//! Which changes wake a claim, and what becomes of an answer.

use bowline_api::ObjectKey;
use bowline_machinery::{Change, Role};

use super::super::role::{Resizer, matters};
use super::*;
use crate::sidecars::testing::{context, sidecar};

fn change(old: &Case, new: &Case) -> Change<PersistentVolumeClaim> {
    let [old, new] = [old, new].map(|case| Some(case.seen().claim));
    Change { old, new }
}

#[test]
fn our_own_conditions_do_not_wake_us() {
    let base = || asks("2Gi").marked("2Gi", IN_PROGRESS);
    let table = [
        ("an error condition", base().condition("ControllerResizeError"), false),
        ("a label", base().claim("/metadata/resourceVersion", json!("8")), false),
        ("a raised request", base().claim("/spec/resources/requests/storage", json!("3Gi")), true),
        ("a lowered request", base().claim("/spec/resources/requests/storage", json!("1.5Gi")), true),
        ("the node's report", base().st(NODE_INFEASIBLE), true),
        ("a new capacity", base().claim("/status/capacity/storage", json!("2Gi")), true),
        ("another resizer", base().annotated(keys::STORAGE_RESIZER, "other"), true),
    ];
    for (name, new, wakes) in table {
        assert_eq!(matters(&change(&base(), &new)), wakes, "{name}");
    }
    assert!(matters(&Change { old: None, new: Some(base().seen().claim) }), "a new claim");
}

async fn resizer(flags: &[&str]) -> Resizer {
    let context = context();
    let sidecar = sidecar(&context.ports.host);
    let settings = (sidecar, crate::flags(flags).unwrap(), Expansion::Controller);
    Resizer::start(context, settings).await.unwrap()
}

fn pod(phase: &str) -> Pod {
    let claim = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "p", "resourceVersion": "6"});
    serde_json::from_value(
        json!({"metadata": metadata, "spec": {"containers": [], "volumes": claim}, "status": {"phase": phase}}),
    )
    .unwrap()
}

#[tokio::test]
async fn edge_4_8_6_only_pods_that_run_count_and_only_with_the_flag() {
    let key = ObjectKey::new("ns", "data");
    for (flags, phase, used) in [
        (&[][..], "Running", true),
        (&[], "Pending", true),
        (&[], "Succeeded", false),
        (&[], "Failed", false),
        (&["--handle-volume-inuse-error=false"], "Running", false),
    ] {
        let role = resizer(flags).await;
        role.claims.note(asks("2Gi").seen().claim);
        if let Some(pods) = &role.pods {
            pods.note(pod(phase));
        }
        assert_eq!(role.see(&key).unwrap().user.is_some(), used, "{flags:?} {phase}");
    }
}

#[tokio::test]
async fn an_answer_is_forgotten_when_nothing_is_left_to_do_and_a_refusal_is_not() {
    let role = resizer(&[]).await;
    let (key, claim) = (ObjectKey::new("ns", "data"), asks("2Gi").seen().claim);
    role.claims.note(claim.clone());
    let outcome = asks("2Gi").answered("2Gi", "2Gi", true).attempt.outcome;
    role.memory.change(&claim, |record| (record.outcome, record.refused) = (outcome, true));
    role.settled(&key);
    let record = role.memory.claim(&claim);
    assert!(record.outcome.is_none() && record.refused);
    role.claims.note_gone(&claim);
    role.settled(&key);
    assert!(role.memory.named(&key).is_none(), "nothing is kept of a claim that is gone");
}
