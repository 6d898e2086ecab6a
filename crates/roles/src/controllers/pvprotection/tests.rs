//! Decision table (reference kube-core.md 6.1) and the property behind it.

use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, keys, volume};
use bowline_machinery::Step::{Do, Done, Wait};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::act::written;
use super::decide;
use super::model::{Action, Observed, Why};

fn seen(phase: &str, guarded: bool, deleting: bool) -> Observed {
    let mut volume = PersistentVolume::default();
    volume.metadata.name = Some("v".into());
    volume.status.get_or_insert_default().phase = Some(phase.into());
    if guarded {
        volume.add_finalizer("example.com/other");
        volume.add_finalizer(keys::PV_PROTECTION);
    }
    if deleting {
        volume.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    }
    Observed { volume: Arc::new(volume) }
}

#[test]
fn decisions() {
    let table = [
        ("new", seen("", false, false), Do(Action::AddFinalizer)),
        ("bound without finalizer", seen(volume::BOUND, false, false), Do(Action::AddFinalizer)),
        ("guarded", seen(volume::BOUND, true, false), Done),
        ("deleted while bound", seen(volume::BOUND, true, true), Wait(Why::Bound)),
        ("deleted while free", seen(volume::AVAILABLE, true, true), Do(Action::RemoveFinalizer)),
        ("deleted after release", seen(volume::RELEASED, true, true), Do(Action::RemoveFinalizer)),
        ("deleted before it had a phase", seen("", true, true), Do(Action::RemoveFinalizer)),
        ("deleted, others hold it", seen(volume::BOUND, false, true), Done),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn other_finalizers_stay() {
    let after = written(Action::RemoveFinalizer, &seen("", true, true).volume);
    assert_eq!(after.metadata.finalizers.unwrap(), ["example.com/other"]);
}

proptest! {
    #[test]
    fn a_bound_volume_is_never_let_go(phase in "(Bound|Available|Released|Failed|Pending|)", guarded: bool, deleting: bool) {
        let seen = seen(&phase, guarded, deleting);
        prop_assert!(phase != volume::BOUND || decide(&seen) != Do(Action::RemoveFinalizer));
    }
}
