use serde_json::json;

use super::claim::base;
use super::*;
use crate::kinds::persistentvolumeclaim::PersistentVolumeClaimRules;

/// Start of the refusal; what follows says what changed.
const FIXED: &str = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n…";
const BETA: &str = "volume.beta.kubernetes.io/storage-class";

fn storage(amount: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": amount}}}})
}

fn bound() -> Value {
    let patch = json!({"spec": {"volumeName": "v", "storageClassName": "fast"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    patched(&base(), &patch)
}

#[test]
fn pending() {
    check_update::<PersistentVolumeClaimRules>(
        &base(),
        &[
            ("volume", json!({"spec": {"volumeName": "v"}}), &[]),
            ("late class", json!({"spec": {"storageClassName": "fast"}}), &[]),
            ("no class after all", json!({"spec": {"storageClassName": ""}}), &[]),
            ("another notation", storage("1Gi"), &[]),
            ("as a plain number", storage("1073741824"), &[]),
            (
                "annotations",
                json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}),
                &[],
            ),
            (
                "grow",
                storage("2Gi"),
                &[
                    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n",
                ],
            ),
            ("shrink", storage("1Mi"), &[FIXED]),
            ("modes", json!({"spec": {"accessModes": ["ReadWriteMany"]}}), &[FIXED]),
            ("selector", json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}), &[FIXED]),
            (
                "data source",
                json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}}),
                &[FIXED],
            ),
            ("attributes", json!({"spec": {"volumeAttributesClassName": "gold"}}), &[FIXED]),
            (
                "mode",
                json!({"spec": {"volumeMode": "Block"}}),
                &[FIXED, "volumeMode: Invalid value: \"Block\": field is immutable"],
            ),
            (
                "class by annotation",
                json!({"metadata": {"annotations": {BETA: "x"}}}),
                &[
                    "metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"x\": field is immutable",
                ],
            ),
        ],
    );
}

#[test]
fn after_binding() {
    check_update::<PersistentVolumeClaimRules>(
        &bound(),
        &[
            ("grow", storage("2Gi"), &[]),
            ("attributes", json!({"spec": {"volumeAttributesClassName": "gold"}}), &[]),
            ("another volume", json!({"spec": {"volumeName": "w"}}), &[FIXED]),
            ("no volume", json!({"spec": {"volumeName": null}}), &[FIXED]),
            ("another class", json!({"spec": {"storageClassName": "slow"}}), &[FIXED]),
            ("no class", json!({"spec": {"storageClassName": null}}), &[FIXED]),
            (
                "below capacity",
                storage("512Mi"),
                &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
            ),
            ("limit", json!({"spec": {"resources": {"limits": {"storage": "9Gi"}}}}), &[FIXED]),
        ],
    );
}

#[test]
fn a_failed_growth_may_be_taken_back() {
    let growing = patched(&bound(), &storage("10Gi"));
    check_update::<PersistentVolumeClaimRules>(
        &growing,
        &[
            ("above capacity", storage("2Gi"), &[]),
            (
                "to capacity",
                storage("1Gi"),
                &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
            ),
        ],
    );
}

#[test]
fn class_in_the_annotation() {
    let old = patched(&base(), &json!({"metadata": {"annotations": {BETA: "fast"}}}));
    check_update::<PersistentVolumeClaimRules>(
        &old,
        &[
            ("moves to the field", json!({"spec": {"storageClassName": "fast"}}), &[]),
            (
                "and the annotation goes",
                json!({"metadata": {"annotations": null}, "spec": {"storageClassName": "fast"}}),
                &[],
            ),
            ("changes on the way", json!({"spec": {"storageClassName": "slow"}}), &[FIXED]),
            (
                "annotation goes alone",
                json!({"metadata": {"annotations": null}}),
                &[
                    "metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"\": field is immutable",
                ],
            ),
        ],
    );
}

#[test]
fn attributes_class_stays_once_applied() {
    let old = patched(
        &bound(),
        &json!({"spec": {"volumeAttributesClassName": "gold"}, "status": {"currentVolumeAttributesClassName": "gold"}}),
    );
    check_update::<PersistentVolumeClaimRules>(
        &old,
        &[
            ("other", json!({"spec": {"volumeAttributesClassName": "silver"}}), &[]),
            (
                "none",
                json!({"spec": {"volumeAttributesClassName": null}}),
                &[
                    "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
                ],
            ),
            (
                "empty",
                json!({"spec": {"volumeAttributesClassName": ""}}),
                &[
                    "spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil",
                ],
            ),
        ],
    );
}
