use serde_json::json;

use super::volume::base;
use super::*;
use crate::kinds::persistentvolume::PersistentVolumeRules;

fn affinity(key: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}]}})
}

#[test]
fn what_may_change() {
    let claim = json!({"namespace": "ns", "name": "data", "uid": "u"});
    check_update::<PersistentVolumeRules>(
        &base(),
        &[
            (
                "bound, grown, moved",
                json!({"spec": {"claimRef": claim, "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteMany"], "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "x", "mountOptions": ["ro"], "volumeAttributesClassName": "gold"}}),
                &[],
            ),
            ("affinity comes", json!({"spec": {"nodeAffinity": affinity("zone")}}), &[]),
            (
                "secret for expanding comes",
                json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "s", "namespace": "ns"}}}}),
                &[],
            ),
            ("same amount", json!({"spec": {"capacity": {"storage": "1Gi"}}}), &[]),
            (
                "source",
                json!({"spec": {"csi": {"volumeHandle": "x"}}}),
                &[
                    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -22,7 +22,7 @@\n  \"StorageOS\": null,\n  \"CSI\": {\n   \"Driver\": \"d.example.com\",\n-  \"VolumeHandle\": \"pool^7\",\n+  \"VolumeHandle\": \"x\",…",
                ],
            ),
            (
                "an empty attribute",
                json!({"spec": {"csi": {"volumeAttributes": {"x": ""}}}}),
                &[
                    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n…",
                ],
            ),
            ("a flag spelt out", json!({"spec": {"csi": {"readOnly": false, "fsType": ""}}}), &[]),
            (
                "another source",
                json!({"spec": {"csi": null, "hostPath": {"path": "/x"}}}),
                &[
                    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n…",
                ],
            ),
            (
                "another secret",
                json!({"spec": {"csi": {"nodePublishSecretRef": {"name": "s", "namespace": "ns"}}}}),
                &[
                    "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n…",
                ],
            ),
            (
                "mode",
                json!({"spec": {"volumeMode": "Block"}}),
                &["volumeMode: Invalid value: \"Block\": field is immutable"],
            ),
        ],
    );
}

#[test]
fn secret_for_expanding_is_fixed_once_set() {
    let old = patched(
        &base(),
        &json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "s", "namespace": "ns"}}}}),
    );
    const FIXED: &str = "spec.persistentvolumesource: Forbidden: …";
    check_update::<PersistentVolumeRules>(
        &old,
        &[
            ("other", json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "t"}}}}), &[FIXED]),
            ("gone", json!({"spec": {"csi": {"controllerExpandSecretRef": null}}}), &[FIXED]),
        ],
    );
}

#[test]
fn affinity_is_fixed_once_set() {
    let old = patched(
        &base(),
        &json!({"spec": {"nodeAffinity": affinity("failure-domain.beta.kubernetes.io/zone")}}),
    );
    const FIXED: &str = "field is immutable, except for updating from beta label to GA";
    let other = json!({"spec": {"nodeAffinity": affinity("rack")}});
    check_update::<PersistentVolumeRules>(
        &old,
        &[
            ("new name", json!({"spec": {"nodeAffinity": affinity("topology.kubernetes.io/zone")}}), &[]),
            (
                "wrong new name",
                json!({"spec": {"nodeAffinity": affinity("topology.kubernetes.io/region")}}),
                &["nodeAffinity: Invalid value: {…"],
            ),
            ("other", other, &["nodeAffinity: Invalid value: {…"]),
            (
                "gone",
                json!({"spec": {"nodeAffinity": null}}),
                &[&format!("nodeAffinity: Invalid value: null: {FIXED}")],
            ),
        ],
    );
}

#[test]
fn attributes_class_stays() {
    let old = patched(&base(), &json!({"spec": {"volumeAttributesClassName": "gold"}}));
    check_update::<PersistentVolumeRules>(
        &old,
        &[
            ("other", json!({"spec": {"volumeAttributesClassName": "silver"}}), &[]),
            (
                "none",
                json!({"spec": {"volumeAttributesClassName": null}}),
                &["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"],
            ),
        ],
    );
}
