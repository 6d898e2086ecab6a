use std::sync::Arc;

use bowline_api::{Meta, build, keys};
use bowline_proto::csi::v1::volume_content_source::{Type, VolumeSource};
use bowline_proto::csi::v1::{
    CapacityRange, CreateVolumeRequest, Topology, TopologyRequirement, VolumeContentSource,
};
use k8s_openapi::api::core::v1::{SecretReference, TypedLocalObjectReference};

use super::super::intent;
use super::super::model::{Creation, Intent, Naming, Secrets, Settings};
use super::{DRIVER, settings};

fn stored_intent() -> Intent {
    let mut claim = build::claim("data").class("fast").build();
    claim.metadata.uid = Some("u-1".into());
    let place = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
    let request = CreateVolumeRequest {
        name: "pvc-u-1".into(),
        capacity_range: Some(CapacityRange { required_bytes: 1 << 30, limit_bytes: 0 }),
        accessibility_requirements: Some(TopologyRequirement {
            requisite: vec![place.clone()],
            preferred: vec![place],
        }),
        ..Default::default()
    };
    let secret = SecretReference { name: Some("s".into()), namespace: Some("ns".into()) };
    let secrets = Secrets { provisioner: Some(secret), ..Secrets::default() };
    Intent {
        claim: Arc::new(claim),
        class: Arc::new(build::class("fast", DRIVER).build()),
        creation: Creation { request, secrets, fs_type: "ext4".into() },
    }
}

#[test]
fn an_intent_is_read_as_it_was_stored() {
    let intent = stored_intent();
    let lease = intent::lease(&settings(), "ns", &intent).unwrap();
    assert_eq!((lease.namespace(), lease.name()), ("ns", "create-volume-d.example-u-1"));
    assert_eq!(lease.label(keys::CREATE_VOLUME), Some(DRIVER));
    assert!(intent::is_own(&settings(), &lease));
    assert!(!intent::is_own(&Settings { identity: "another".into(), ..settings() }, &lease));
    assert_eq!(*intent::stored(&settings(), lease).unwrap().intent, intent);
}

/// One place for each node, all of them asked for and in another order preferred.
#[test]
fn a_topology_of_thousands_of_nodes_is_stored() {
    let node = |number: u64| {
        let name = format!("ip-10-{}-{}.eu-central-1.compute.internal", number % 250, number * 7919 % 9973);
        Topology { segments: [("topology.d.example/node".to_owned(), name)].into() }
    };
    let mut places: Vec<Topology> = (0..5_000).map(node).collect();
    let requisite = places.clone();
    places.rotate_left(2_500);
    let mut intent = stored_intent();
    intent.creation.request.accessibility_requirements =
        Some(TopologyRequirement { requisite, preferred: places });
    let lease = intent::lease(&settings(), "ns", &intent).unwrap();
    assert_eq!(*intent::stored(&settings(), lease).unwrap().intent, intent);
}

/// A clone is finished by the next process although claim and source are gone (PROV-2).
#[test]
fn an_intent_that_clones_is_read_as_it_was_stored() {
    let mut intent = stored_intent();
    let content = Type::Volume(VolumeSource { volume_id: "v-source".into() });
    intent.creation.request.volume_content_source = Some(VolumeContentSource { r#type: Some(content) });
    let source = TypedLocalObjectReference {
        kind: "PersistentVolumeClaim".into(),
        name: "source".into(),
        api_group: None,
    };
    Arc::make_mut(&mut intent.claim).spec.as_mut().unwrap().data_source = Some(source);
    let lease = intent::lease(&settings(), "ns", &intent).unwrap();
    assert_eq!(*intent::stored(&settings(), lease).unwrap().intent, intent);
}

#[test]
fn no_secret_is_stored() {
    let mut intent = stored_intent();
    intent.creation.request.secrets = [("password".to_owned(), "hunter2".to_owned())].into();
    let lease = intent::lease(&settings(), "ns", &intent).unwrap();
    let stored = intent::stored(&settings(), lease).unwrap();
    assert!(stored.intent.creation.request.secrets.is_empty(), "SEC-1");
}

#[test]
fn what_cannot_be_stored_or_read_is_an_error() {
    let mut intent = stored_intent();
    let random = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.pow(3)).to_string();
    intent.creation.request.parameters = [("x".to_owned(), (0..60_000).map(random).collect())].into();
    assert!(intent::lease(&settings(), "ns", &intent).unwrap_err().contains("can be stored"));
    let mut lease = intent::lease(&settings(), "ns", &stored_intent()).unwrap();
    for text in ["", "{}", r#"{"claim":{},"class":{},"request":"?","secrets":{},"fsType":""}"#] {
        lease.set_annotation(keys::CREATE_VOLUME, text);
        assert!(intent::stored(&settings(), lease.clone()).is_err(), "{text}");
    }
}

/// A deployment is rolled out with other flags while an answer is outstanding (PROV-2).
#[test]
fn an_intent_is_read_after_the_naming_flags_changed() {
    let intent = stored_intent();
    let lease = intent::lease(&settings(), "ns", &intent).unwrap();
    for (prefix, length) in [("vol", None), ("pvc", Some(2)), ("vol", Some(8))] {
        let naming = Naming { prefix: prefix.to_owned(), uuid_length: length };
        let stored = intent::stored(&Settings { naming, ..settings() }, lease.clone());
        assert_eq!(*stored.unwrap().intent, intent, "{length:?}");
    }
}

/// A Lease that another program wrote must not make volumes that no class allows.
#[test]
fn only_what_this_program_would_have_stored_is_taken_over() {
    let refused = |change: fn(&mut Intent)| {
        let mut intent = stored_intent();
        change(&mut intent);
        let lease = intent::lease(&settings(), "ns", &intent).unwrap();
        intent::stored(&settings(), lease).map(|_| ()).unwrap_err()
    };
    let source = |intent: &mut Intent| {
        let other = VolumeSource { volume_id: "another-tenants".into() };
        intent.creation.request.volume_content_source =
            Some(VolumeContentSource { r#type: Some(Type::Volume(other)) });
    };
    let class = |intent: &mut Intent| intent.class = Arc::new(build::class("fast", "other.example").build());
    let name = |intent: &mut Intent| intent.creation.request.name = "pvc-u-2".into();
    assert_eq!(refused(source), "it copies something else than its claim names");
    assert_eq!(refused(class), "its class belongs to driver `other.example`");
    assert_eq!(refused(name), "its volume `pvc-u-2` is not named after its claim");
    let mut lease = intent::lease(&settings(), "ns", &stored_intent()).unwrap();
    lease.metadata.name = Some("create-volume-d.example-u-2".into());
    let why = intent::stored(&settings(), lease).map(|_| ()).unwrap_err();
    assert_eq!(why, "its name is not that of its claim");
}
