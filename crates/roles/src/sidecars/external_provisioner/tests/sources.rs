//! What volumes start from: clones.

use std::sync::Arc;

use bowline_api::{Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, build, keys};
use bowline_machinery::Step;
use bowline_proto::csi::v1::volume_content_source::Type;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolumeClaimStatus, PersistentVolumeSpec,
    PersistentVolumeStatus, TypedLocalObjectReference, TypedObjectReference,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::decide::decide;
use super::super::decide::source::cloned_from;
use super::super::model::{Action, Claim, Observed, Source, SourceClaim, Why};
use super::DRIVER;
use super::claims::{Decision, creation, decision, seen};

/// A bound claim with the finalizer that clones put on it.
fn source() -> PersistentVolumeClaim {
    let mut claim = build::claim("source").class("slow").build();
    claim.metadata.uid = Some("u-source".into());
    claim.spec.as_mut().unwrap().volume_name = Some("pv-source".into());
    claim.status = Some(PersistentVolumeClaimStatus { phase: Some("Bound".into()), ..Default::default() });
    claim.add_finalizer(keys::CLONING_PROTECTION);
    claim
}

fn source_volume() -> PersistentVolume {
    let claim = source();
    let claim_ref = ObjectReference {
        name: Some(claim.name().into()),
        namespace: Some(claim.namespace().into()),
        uid: Some(claim.uid().into()),
        ..Default::default()
    };
    let csi = CSIPersistentVolumeSource {
        driver: DRIVER.into(),
        volume_handle: "v-source".into(),
        ..Default::default()
    };
    let spec = PersistentVolumeSpec {
        csi: Some(csi),
        claim_ref: Some(claim_ref),
        ..PersistentVolumeSpec::default()
    };
    let mut volume = PersistentVolume { spec: Some(spec), ..PersistentVolume::default() };
    volume.metadata.name = Some("pv-source".into());
    volume.status = Some(PersistentVolumeStatus { phase: Some("Bound".into()), ..Default::default() });
    volume
}

fn reference(kind: &str, name: &str) -> Option<TypedLocalObjectReference> {
    Some(TypedLocalObjectReference { kind: kind.into(), name: name.into(), api_group: None })
}

fn cloning(claim: Option<PersistentVolumeClaim>, volume: Option<PersistentVolume>) -> Claim {
    let of = reference("PersistentVolumeClaim", "source");
    let source = Source::Claim { claim: claim.map(Arc::new), volume: volume.map(Arc::new) };
    Claim { source, ..seen().claim(|claim| claim.spec.as_mut().unwrap().data_source = of) }
}

/// The source's claim and volume, one of them changed.
fn with(claim: impl FnOnce(&mut PersistentVolumeClaim), volume: impl FnOnce(&mut PersistentVolume)) -> Claim {
    let (mut source, mut made) = (source(), source_volume());
    claim(&mut source);
    volume(&mut made);
    cloning(Some(source), Some(made))
}

fn failure(seen: &Claim) -> String {
    match decision(seen) {
        Step::Fail(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn storage(claim: &mut PersistentVolumeClaim, size: &str) {
    let resources = claim.spec.as_mut().unwrap().resources.get_or_insert_default();
    resources.requests = Some([("storage".to_owned(), Quantity(size.to_owned()))].into());
}

fn deleting(claim: &mut PersistentVolumeClaim) {
    claim.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
}

#[test]
fn a_clone_names_the_volume_of_its_source() {
    let content = creation(&with(|_| {}, |_| {})).unwrap().request.volume_content_source.unwrap();
    assert!(matches!(content.r#type, Some(Type::Volume(source)) if source.volume_id == "v-source"));
    let mut by_reference =
        with(|_| {}, |_| {}).claim(|claim| claim.spec.as_mut().unwrap().data_source = None);
    let of = TypedObjectReference {
        kind: "PersistentVolumeClaim".into(),
        name: "source".into(),
        ..Default::default()
    };
    by_reference = by_reference.claim(|claim| claim.spec.as_mut().unwrap().data_source_ref = Some(of));
    assert!(creation(&by_reference).unwrap().request.volume_content_source.is_some());
}

#[test]
fn the_source_is_protected_before_the_call_is_stored() {
    let unprotected = |claim: &mut PersistentVolumeClaim| claim.remove_finalizer(keys::CLONING_PROTECTION);
    assert_eq!(decision(&with(unprotected, |_| {})), Step::Do(Action::ProtectSource));
    assert!(matches!(decision(&with(|_| {}, |_| {})), Step::Do(Action::Store(_))));
}

#[test]
fn edge_2_15_11_only_a_bound_source_of_this_driver_is_cloned_whatever_its_class() {
    assert!(creation(&with(|_| {}, |_| {})).is_some(), "source has class slow, clone has class fast");
    let phase = |claim: &mut PersistentVolumeClaim, phase: &str| {
        claim.status.as_mut().unwrap().phase = Some(phase.into());
    };
    let invalid = "claim in dataSource not bound or invalid";
    let csi = |volume: &mut PersistentVolume, driver: &str| {
        volume.spec.as_mut().unwrap().csi.as_mut().unwrap().driver = driver.into();
    };
    let by = |volume: &mut PersistentVolume, uid: &str| {
        volume.spec.as_mut().unwrap().claim_ref.as_mut().unwrap().uid = Some(uid.into());
    };
    let table: [(&str, Claim, &str); 13] = [
        ("missing", cloning(None, None), "error getting PVC source (namespace \"default\")"),
        ("pending", with(|c| phase(c, "Pending"), |_| {}), "must have a status of Bound"),
        ("lost", with(|c| phase(c, "Lost"), |_| {}), "must have a status of Bound"),
        ("deleted", with(deleting, |_| {}), "is currently being deleted"),
        (
            "without a class",
            with(|c| c.spec.as_mut().unwrap().storage_class_name = None, |_| {}),
            "the source PVC (source) storageclass cannot be empty",
        ),
        ("larger", with(|c| storage(c, "2Gi"), |_| {}), "requested 1073741824 but source is 2147483648"),
        ("no volume", cloning(Some(source()), None), invalid),
        ("no CSI volume", with(|_| {}, |v| v.spec.as_mut().unwrap().csi = None), invalid),
        ("another driver's", with(|_| {}, |v| csi(v, "other.example")), invalid),
        ("another claim's", with(|_| {}, |v| by(v, "u-2")), invalid),
        ("reserved by name only", with(|_| {}, |v| by(v, "")), invalid),
        ("released", with(|_| {}, |v| v.status.as_mut().unwrap().phase = Some("Released".into())), invalid),
        (
            "block",
            with(|_| {}, |v| v.spec.as_mut().unwrap().volume_mode = Some("Block".into())),
            "Source is Block, but new PVC requested Filesystem",
        ),
    ];
    for (name, seen, part) in table {
        let why = failure(&seen);
        assert!(why.contains(part), "{name}: {why}");
        let prefix = "error getting handle for DataSource Type PersistentVolumeClaim by Name source: ";
        assert!(why.starts_with(prefix), "{name}: {why}");
    }
    let block = with(|_| {}, |_| {}).claim(|c| c.spec.as_mut().unwrap().volume_mode = Some("Block".into()));
    assert!(failure(&block).contains("Source is Filesystem, but new PVC requested Block"));
    let larger = with(|_| {}, |_| {}).claim(|claim| storage(claim, "3Gi"));
    assert!(creation(&larger).is_some(), "a clone may be larger");
}

#[test]
fn sources_are_checked_after_the_driver_and_before_topology() {
    let cannot = cloning(None, None).settings(|s| s.clones = false);
    assert_eq!(
        failure(&cannot),
        "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
    );
    let placed = cloning(None, None).settings(|s| s.topology = true);
    assert!(failure(&placed).starts_with("error getting handle for DataSource"));
    let nameless = seen().claim(|c| {
        c.spec.as_mut().unwrap().data_source = reference("PersistentVolumeClaim", "");
    });
    assert_eq!(failure(&nameless), "the PVC source not found for PVC data");
    let elsewhere = TypedObjectReference {
        kind: "PersistentVolumeClaim".into(),
        name: "source".into(),
        namespace: Some("other".into()),
        ..Default::default()
    };
    let elsewhere = seen().claim(|c| c.spec.as_mut().unwrap().data_source_ref = Some(elsewhere));
    assert!(failure(&elsewhere).contains("CrossNamespaceVolumeDataSource feature is disabled"));
}

/// The source is deleted while the driver copies it: what was sent is repeated as it was.
#[test]
fn a_clone_that_was_sent_is_repeated_whatever_becomes_of_its_source() {
    let sent = with(|_| {}, |_| {}).open();
    let deleted = Claim { source: Source::None, ..sent.clone() };
    for seen in [sent.clone(), deleted.clone(), deleted.gone()] {
        let content = creation(&seen).unwrap().request.volume_content_source;
        assert_eq!(content, creation(&sent).unwrap().request.volume_content_source);
    }
    let unsent = Claim { source: with(deleting, |_| {}).source, ..with(|_| {}, |_| {}).stored() };
    assert_eq!(decision(&unsent), Step::Do(Action::Forget), "not sent, and the source goes");
}

#[test]
fn a_source_is_released_when_it_is_deleted_and_nothing_copies_it() {
    let released = |change: fn(&mut SourceClaim)| -> Decision {
        let mut object = source();
        deleting(&mut object);
        let mut seen =
            SourceClaim { object: Arc::new(object), foreign: false, clone: None, intents_read: true };
        change(&mut seen);
        decide(&Observed::Source(Box::new(seen)))
    };
    assert_eq!(released(|_| {}), Step::Do(Action::ReleaseSource));
    assert_eq!(
        released(|seen| seen.clone = Some("copy".into())),
        Step::Wait(Why::Cloning("copy".into())),
        "also a clone whose call is only stored"
    );
    assert_eq!(released(|seen| seen.intents_read = false), Step::Wait(Why::IntentsUnread));
    assert_eq!(released(|seen| seen.foreign = true), Step::Done);
    assert_eq!(released(|seen| seen.object = Arc::new(source())), Step::Done, "it lives");
    let bare = |seen: &mut SourceClaim| {
        Arc::make_mut(&mut seen.object).remove_finalizer(keys::CLONING_PROTECTION);
    };
    assert_eq!(released(bare), Step::Done);
}

#[test]
fn only_claims_are_cloned() {
    let key = cloned_from(&with(|_| {}, |_| {}).object);
    assert_eq!(key, Some(ObjectKey::new("default", "source")));
    let other = seen().claim(|c| c.spec.as_mut().unwrap().data_source = reference("Hello", "source"));
    assert_eq!((cloned_from(&other.object), cloned_from(&seen().object)), (None, None));
}
