use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::{Meta, build, keys};
use bowline_proto::csi::v1::{CapacityRange, CreateVolumeRequest, Topology, Volume};
use serde_json::json;

use super::super::decide::persistent_volume;
use super::super::model::{Attempt, Claim, Cluster, Creation, Secrets};
use super::{DRIVER, settings, shared};

fn creation() -> Creation {
    let range = CapacityRange { required_bytes: 1 << 30, limit_bytes: 0 };
    let request =
        CreateVolumeRequest { name: "pvc-u-1".into(), capacity_range: Some(range), ..Default::default() };
    Creation { request, secrets: Secrets::default(), fs_type: "ext4".into() }
}

fn seen() -> Claim {
    let mut claim = build::claim("data").class("fast").build();
    claim.metadata.uid = Some("u-1".into());
    claim.metadata.resource_version = Some("7".into());
    claim.spec.as_mut().unwrap().volume_mode = Some("Filesystem".into());
    Claim {
        source: Default::default(),
        settings: shared(settings()),
        object: Arc::new(claim),
        exists: true,
        class: None,
        attributes: None,
        volume_exists: false,
        cluster: Cluster::default(),
        attempt: Attempt::default(),
    }
}

fn made() -> Volume {
    let zone = |zone: &str| Topology { segments: BTreeMap::from([("zone".to_owned(), zone.to_owned())]) };
    Volume {
        volume_id: "v".into(),
        capacity_bytes: 0,
        volume_context: BTreeMap::from([("pool".to_owned(), "p".to_owned())]),
        accessible_topology: vec![zone("a"), Topology::default(), zone("b")],
        ..Default::default()
    }
}

#[test]
fn the_object_in_full() {
    let class = build::class("fast", DRIVER).build();
    let object = persistent_volume(&seen(), &class, &creation(), &made());
    let term =
        |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    let expected = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-u-1",
            "finalizers": [keys::PROVISIONER_FINALIZER],
            "annotations": {
                keys::PROVISIONED_BY: DRIVER,
                keys::DELETION_SECRET_NAME: "",
                keys::DELETION_SECRET_NAMESPACE: "",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data",
                "uid": "u-1", "resourceVersion": "7",
            },
            "csi": {
                "driver": DRIVER,
                "fsType": "ext4",
                "volumeAttributes": {"pool": "p", keys::PROVISIONER_IDENTITY: "1-2-d.example"},
                "volumeHandle": "v",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term("a"), term("b")]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
        },
    });
    assert_eq!(serde_json::to_value(&object).unwrap(), expected);
}

#[test]
fn what_changes_with_claim_class_and_flags() {
    let class = build::class("fast", DRIVER).reclaim("Retain").build();
    let mut seen = seen();
    Arc::make_mut(&mut seen.settings).controller_publish_readonly = true;
    let spec = Arc::make_mut(&mut seen.object).spec.as_mut().unwrap();
    spec.volume_mode = Some("Block".into());
    spec.access_modes = Some(vec!["ReadOnlyMany".into()]);
    let made = Volume { capacity_bytes: 3 << 29, accessible_topology: vec![], ..made() };
    let object = persistent_volume(&seen, &class, &creation(), &made);
    let spec = object.spec.as_ref().unwrap();
    let csi = spec.csi.as_ref().unwrap();
    assert_eq!((csi.fs_type.as_deref(), csi.read_only), (None, Some(true)));
    assert_eq!(spec.capacity.as_ref().unwrap()["storage"].0, "1536Mi", "what the driver made");
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Retain"));
    assert!(spec.node_affinity.is_none() && object.has_finalizer(keys::PROVISIONER_FINALIZER));
}
