use std::sync::Arc;

use bowline_api::{Meta, PersistentVolume, build, keys};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolumeSpec, PersistentVolumeStatus, SecretReference,
};
use proptest::prelude::*;

use super::super::decide::decide;
use super::super::model::{Action, Observed, Volume, Why};
use super::{DRIVER, settings, shared};

/// A volume of our driver, Bound, with policy Delete and our finalizer.
fn seen() -> Volume {
    let csi =
        CSIPersistentVolumeSource { driver: DRIVER.into(), volume_handle: "v".into(), ..Default::default() };
    let claim =
        ObjectReference { name: Some("data".into()), namespace: Some("ns".into()), ..Default::default() };
    let spec = PersistentVolumeSpec {
        csi: Some(csi),
        claim_ref: Some(claim),
        persistent_volume_reclaim_policy: Some("Delete".into()),
        ..Default::default()
    };
    let mut object = PersistentVolume { spec: Some(spec), ..Default::default() };
    object.metadata.name = Some("pv-1".into());
    object.set_annotation(keys::PROVISIONED_BY, DRIVER);
    object.add_finalizer(keys::PROVISIONER_FINALIZER);
    let object = Arc::new(object);
    Volume { settings: shared(settings()), object, class: None, attached_to: None, deleted: false }
        .phase("Bound")
}

impl Volume {
    fn object(mut self, change: impl FnOnce(&mut PersistentVolume)) -> Self {
        change(Arc::make_mut(&mut self.object));
        self
    }
    fn phase(self, phase: &str) -> Self {
        let status = PersistentVolumeStatus { phase: Some(phase.into()), ..Default::default() };
        self.object(|o| o.status = Some(status))
    }
    fn released(self) -> Self {
        self.phase("Released")
    }
    fn policy(self, policy: &str) -> Self {
        self.object(|o| o.spec.as_mut().unwrap().persistent_volume_reclaim_policy = Some(policy.into()))
    }
    fn bare(self) -> Self {
        self.object(|o| o.remove_finalizer(keys::PROVISIONER_FINALIZER))
    }
    fn deleting(self) -> Self {
        let now = serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
        self.object(|o| o.metadata.deletion_timestamp = Some(now))
    }
    fn deleted(self) -> Self {
        Self { deleted: true, ..self }
    }
    fn annotated(self, key: &str, value: &str) -> Self {
        self.object(|o| o.set_annotation(key, value))
    }
}

fn delete(secret: Option<(&str, &str)>) -> Step<Action, Why> {
    let secret = secret.map(|(namespace, name)| SecretReference {
        name: Some(name.into()),
        namespace: Some(namespace.into()),
    });
    Step::Do(Action::Delete { handle: "v".into(), secret })
}

fn decision(seen: Volume) -> Step<Action, Why> {
    decide(&Observed::Volume(Box::new(seen)))
}

#[test]
fn volume_decisions() {
    let foreign = seen().released().annotated(keys::PROVISIONED_BY, "other.example");
    let fixed = seen().object(|o| o.metadata.annotations = None);
    let attached = Volume { attached_to: Some("n".into()), ..seen().released() };
    let still = Why::StillAttached { volume: "pv-1".into(), node: "n".into() };
    let table = [
        ("bound", seen(), Step::Done),
        ("bound, no finalizer", seen().bare(), Step::Do(Action::AddFinalizer)),
        ("static, no finalizer", fixed.clone().bare(), Step::Do(Action::AddFinalizer)),
        ("static, released", fixed.released(), delete(None)),
        ("pending, no finalizer", seen().bare().phase("Pending"), Step::Done),
        ("kept", seen().policy("Retain"), Step::Do(Action::RemoveFinalizer)),
        ("kept and released", seen().policy("Retain").released(), Step::Do(Action::RemoveFinalizer)),
        ("kept, nothing to do", seen().policy("Retain").bare().released(), Step::Done),
        ("recycled", seen().policy("Recycle"), Step::Do(Action::RemoveFinalizer)),
        ("released", seen().released(), delete(None)),
        ("released, no finalizer", seen().released().bare(), delete(None)),
        ("failed", seen().phase("Failed"), Step::Done),
        ("deleted object first, still bound", seen().deleting(), Step::Done),
        ("deleted object first, released", seen().deleting().released(), delete(None)),
        ("already done", seen().deleting().released().bare(), Step::Done),
        ("backend gone", seen().released().deleted(), Step::Do(Action::DeleteObject)),
        ("object deleting", seen().released().deleted().deleting(), Step::Do(Action::RemoveFinalizer)),
        ("another driver's", foreign, Step::Done),
        ("attached", attached, Step::Wait(still)),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decision(seen), expected, "{name}");
    }
}

#[test]
fn secrets_for_deletion() {
    let noted = |name: &str, namespace: &str| {
        let seen = seen().released().annotated(keys::DELETION_SECRET_NAME, name);
        seen.annotated(keys::DELETION_SECRET_NAMESPACE, namespace)
    };
    let class = |name: &str| {
        let class =
            build::class("fast", DRIVER).parameter("csi.storage.k8s.io/provisioner-secret-name", name);
        let class = class.parameter("csi.storage.k8s.io/provisioner-secret-namespace", "${pvc.namespace}");
        Some(Arc::new(class.build()))
    };
    let with_class = |seen: Volume, name: &str| Volume { class: class(name), ..seen };
    let no_claim = |seen: Volume| seen.object(|o| o.spec.as_mut().unwrap().claim_ref = None);
    let table = [
        ("noted", noted("s", "ns-s"), delete(Some(("ns-s", "s")))),
        ("noted as none, whatever the class says", with_class(noted("", ""), "s"), delete(None)),
        ("from the class", with_class(seen().released(), "of-${pvc.name}"), delete(Some(("ns", "of-data")))),
        ("class gone", seen().released(), delete(None)),
        ("claim unknown", with_class(no_claim(seen().released()), "s"), delete(None)),
    ];
    for (name, seen, expected) in table {
        assert_eq!(decision(seen), expected, "{name}");
    }
    let annotation = with_class(seen().released(), "${pvc.annotations['x']}");
    assert!(matches!(decision(annotation), Step::Fail(Why::Invalid(_))));
}

prop_compose! {
    fn any_volume()(
        phase in prop::sample::select(vec!["Pending", "Available", "Bound", "Released", "Failed"]),
        policy in prop::sample::select(vec!["Delete", "Retain", "Recycle"]),
        (guarded, deleting, deleted, attached, ours) in any::<(bool, bool, bool, bool, bool)>(),
    ) -> Volume {
        let mut seen = seen().phase(phase).policy(policy);
        if !guarded {
            seen = seen.bare();
        }
        if deleting {
            seen = seen.deleting();
        }
        if !ours {
            seen = seen.annotated(keys::PROVISIONED_BY, "other.example");
        }
        Volume { deleted, attached_to: attached.then(|| "n".into()), ..seen }
    }
}

proptest! {
    #[test]
    fn only_what_may_go_is_deleted(seen in any_volume()) {
        let policy = seen.object.spec.as_ref().and_then(|s| s.persistent_volume_reclaim_policy.clone());
        let phase = seen.object.status.as_ref().and_then(|s| s.phase.clone());
        match decision(seen.clone()) {
            Step::Do(Action::Delete { .. } | Action::DeleteObject) => {
                prop_assert_eq!(policy.as_deref(), Some("Delete"), "PROV-3: {:?}", seen);
                prop_assert_eq!(phase.as_deref(), Some("Released"), "in use: {:?}", seen);
            }
            Step::Do(Action::RemoveFinalizer) => {
                prop_assert!(seen.deleted || policy.as_deref() != Some("Delete"), "PROV-2: {seen:?}");
            }
            Step::Do(_) | Step::Wait(_) | Step::Fail(_) | Step::Done => {}
        }
        if let Step::Do(Action::Delete { .. }) = decision(seen.clone()) {
            prop_assert!(seen.attached_to.is_none(), "attached: {seen:?}");
        }
    }

    /// A released volume with policy Delete comes to its end.
    #[test]
    fn released_volumes_go(deleting in any::<bool>()) {
        let mut now = if deleting { seen().released().deleting() } else { seen().released() };
        for _ in 0..4 {
            now = match decision(now.clone()) {
                Step::Do(Action::Delete { .. }) => now.deleted(),
                Step::Do(Action::DeleteObject) => now.deleting(),
                Step::Do(Action::RemoveFinalizer) => now.bare(),
                Step::Do(_) | Step::Wait(_) | Step::Fail(_) | Step::Done => break,
            };
        }
        prop_assert!(now.deleted && !now.object.has_finalizer(keys::PROVISIONER_FINALIZER), "PROV-2");
        prop_assert!(now.object.deleting());
    }
}

#[test]
fn edge_2_15_7_empty_annotations_mean_no_secret_and_absent_ones_ask_the_class() {
    let parameter = |part: &str| format!("csi.storage.k8s.io/provisioner-secret-{part}");
    let class = build::class("fast", DRIVER).parameter(&parameter("name"), "s");
    let class = Some(Arc::new(class.parameter(&parameter("namespace"), "ns").build()));
    let asked = Volume { class, ..seen().released() };
    assert_eq!(decision(asked.clone()), delete(Some(("ns", "s"))));
    let empty =
        asked.annotated(keys::DELETION_SECRET_NAME, "").annotated(keys::DELETION_SECRET_NAMESPACE, "");
    assert_eq!(decision(empty), delete(None));
}

#[test]
fn edge_2_15_8_any_attachment_keeps_a_volume() {
    let attached = Volume { attached_to: Some("n".into()), ..seen().released() };
    assert!(matches!(decision(attached), Step::Wait(Why::StillAttached { .. })));
}

#[test]
fn edge_2_15_16_the_finalizer_follows_the_policy_also_on_static_volumes() {
    let fixed = || seen().object(|o| o.metadata.annotations = None);
    assert_eq!(decision(fixed().bare()), Step::Do(Action::AddFinalizer));
    assert_eq!(decision(fixed().policy("Retain")), Step::Do(Action::RemoveFinalizer));
    assert_eq!(decision(seen().released().deleting()), delete(None), "volume deleted first, then its claim");
}
