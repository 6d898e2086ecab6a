//! Decision table and usage rules (reference kube-core.md 6.1), and the property behind them.

use std::sync::Arc;

use bowline_api::{Meta, Pod, build, keys};
use bowline_machinery::Step::{Do, Done, Wait};
use k8s_openapi::api::core::v1::{EphemeralVolumeSource, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::act::unguarded;
use super::decide::{decide, used_by};
use super::live::users_of;
use super::model::{Action, Observed, Usage, Why};

fn seen(guarded: bool, deleting: bool, usage: Usage) -> Observed {
    let mut claim = build::claim("data").build();
    if guarded {
        claim.add_finalizer("example.com/other");
        claim.add_finalizer(keys::PVC_PROTECTION);
    }
    if deleting {
        claim.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    }
    Observed { claim: Arc::new(claim), usage }
}

#[test]
fn decisions() {
    let pod = || Usage::Pod("p".into());
    let only_live = || Usage::OnlyLive(Arc::new(user("n")));
    let take_in = Action::TakeIn(Arc::new(user("n")));
    let table = [
        ("new", seen(false, false, Usage::Unasked), Do(Action::AddFinalizer)),
        ("guarded", seen(true, false, Usage::Unasked), Done),
        ("deleted, used", seen(true, true, pod()), Wait(Why::Used("p".into()))),
        ("deleted, only the API server knows its user", seen(true, true, only_live()), Do(take_in)),
        ("deleted, nobody was asked", seen(true, true, Usage::Unasked), Wait(Why::Unasked)),
        ("deleted, unused", seen(true, true, Usage::Unused), Do(Action::RemoveFinalizer)),
        ("deleted, others hold it", seen(false, true, Usage::Unasked), Done),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

fn user(node: &str) -> Pod {
    let mut pod = build::pod("p").mount("data", "/data").build();
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = (!node.is_empty()).then(|| node.to_owned());
    spec.volumes.get_or_insert_default().push(Volume {
        name: "scratch".into(),
        ephemeral: Some(EphemeralVolumeSource::default()),
        ..Default::default()
    });
    pod
}

fn shut_down(mut pod: Pod, grace_seconds: i64) -> Pod {
    pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    pod.metadata.deletion_grace_period_seconds = Some(grace_seconds);
    pod
}

fn finished(mut pod: Pod) -> Pod {
    pod.status.get_or_insert_default().phase = Some("Succeeded".into());
    pod
}

#[test]
fn which_pods_count() {
    let both = ["data", "p-scratch"].as_slice();
    let table = [
        ("no node", user(""), [].as_slice()),
        ("no node, finished", finished(user("")), [].as_slice()),
        ("running", user("n"), both),
        ("finished, object still there", finished(user("n")), both),
        ("being deleted", shut_down(user("n"), 30), both),
        ("shut down: only the ephemeral one is let go", shut_down(user("n"), 0), ["data"].as_slice()),
        ("no claims", build::pod("p").build(), [].as_slice()),
    ];
    for (name, pod, expected) in table {
        assert_eq!(used_by(&pod), expected, "{name}");
    }
    assert_eq!(users_of(vec![user(""), user("n")]).get("data").map(|pod| pod.name()), Some("p"));
    assert!(users_of(vec![user("")]).is_empty());
}

#[test]
fn other_finalizers_stay() {
    let after = unguarded(&seen(true, true, Usage::Unused).claim);
    assert_eq!(after.metadata.finalizers.unwrap(), ["example.com/other"]);
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let only_live = Usage::OnlyLive(Arc::new(user("n")));
    prop_oneof![Just(Usage::Unasked), Just(Usage::Unused), Just(only_live), "[a-z]{1,3}".prop_map(Usage::Pod)]
}

proptest! {
    #[test]
    fn only_the_api_servers_word_lets_a_claim_go(guarded: bool, deleting: bool, usage in any_usage()) {
        let seen = seen(guarded, deleting, usage);
        if decide(&seen) == Do(Action::RemoveFinalizer) {
            prop_assert!(seen.usage == Usage::Unused && seen.claim.deleting());
        }
    }
}
