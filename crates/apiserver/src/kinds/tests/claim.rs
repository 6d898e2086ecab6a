use serde_json::json;

use super::*;
use crate::kinds::persistentvolumeclaim::PersistentVolumeClaimRules;

pub fn base() -> Value {
    json!({
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    })
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

#[test]
fn filled_in() {
    let stored =
        created::<PersistentVolumeClaimRules>(&patched(&base(), &json!({"status": {"phase": "Bound"}})));
    assert_eq!(stored["status"], json!({"phase": "Pending"}));
    assert_eq!(stored["spec"]["volumeMode"], "Filesystem");
    assert_eq!(stored["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(stored["spec"].get("storageClassName"), None, "the class is admission's");
}

#[test]
fn data_sources_are_mirrored() {
    let claim = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a"});
    let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let image = json!({"apiGroup": "example.com", "kind": "Image", "name": "i"});
    let foreign = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"});
    let table = [
        (json!({"dataSource": claim}), Some(&claim), Some(&claim)),
        (json!({"dataSource": snapshot}), Some(&snapshot), Some(&snapshot)),
        (json!({"dataSource": image}), None, None),
        (json!({"dataSourceRef": image}), Some(&image), Some(&image)),
        (json!({"dataSource": image, "dataSourceRef": image}), Some(&image), Some(&image)),
        (json!({"dataSourceRef": foreign}), None, None),
    ];
    for (patch, source, reference) in table {
        let stored = created::<PersistentVolumeClaimRules>(&patched(&base(), &spec(patch.clone())));
        assert_eq!(stored["spec"].get("dataSource"), source, "{patch}");
        assert_eq!(stored["spec"].get("dataSourceRef"), reference, "{patch}");
    }
    // An old client that knows only the first field leaves a populated claim as it is.
    let old =
        created::<PersistentVolumeClaimRules>(&patched(&base(), &spec(json!({"dataSourceRef": image}))));
    let new = patched(&old, &spec(json!({"dataSourceRef": null})));
    assert_eq!(updated::<PersistentVolumeClaimRules>(&new, &old)["spec"]["dataSourceRef"], image);
}

#[test]
fn rules() {
    let storage = |amount: &str| spec(json!({"resources": {"requests": {"storage": amount}}}));
    check_create::<PersistentVolumeClaimRules>(
        &base(),
        &[
            (
                "no modes",
                spec(json!({"accessModes": null})),
                &["spec.accessModes: Required value: at least 1 access mode is required"],
            ),
            (
                "mode",
                spec(json!({"accessModes": ["Some"]})),
                &[
                    "spec.accessModes: Unsupported value: \"Some\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                ],
            ),
            (
                "one pod and more",
                spec(json!({"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]})),
                &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
            ),
            ("no size", spec(json!({"resources": null})), &["spec.resources[storage]: Required value"]),
            (
                "zero",
                storage("0"),
                &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
            ),
            ("fraction", storage("1500m"), &[]),
            (
                "selector",
                spec(
                    json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}),
                ),
                &[
                    "spec.selector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator",
                ],
            ),
            (
                "selector label",
                spec(json!({"selector": {"matchLabels": {"a": "b c"}}})),
                &["spec.selector.matchLabels: Invalid value: \"b c\": a valid label must be…"],
            ),
            ("no class on purpose", spec(json!({"storageClassName": ""})), &[]),
            (
                "class",
                spec(json!({"storageClassName": "A"})),
                &["spec.storageClassName: Invalid value: \"A\": a lowercase RFC 1123 subdomain…"],
            ),
            (
                "mode of volume",
                spec(json!({"volumeMode": "Tape"})),
                &[
                    "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
                ],
            ),
            ("empty attributes", spec(json!({"volumeAttributesClassName": ""})), &[]),
            (
                "attributes",
                spec(json!({"volumeAttributesClassName": "A"})),
                &["spec.volumeAttributesClassName: Invalid value: \"A\": a lowercase RFC 1123 subdomain…"],
            ),
        ],
    );
}

#[test]
fn data_source_rules() {
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    let other = json!({"kind": "PersistentVolumeClaim", "name": "b"});
    check_create::<PersistentVolumeClaimRules>(
        &base(),
        &[
            (
                "no name",
                spec(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": ""}})),
                &["spec.dataSource.name: Required value", "spec.dataSourceRef.name: Required value"],
            ),
            (
                "no kind",
                spec(json!({"dataSourceRef": {"name": "a", "apiGroup": "example.com"}})),
                &["spec.dataSource.kind: Required value", "spec.dataSourceRef.kind: Required value"],
            ),
            (
                "core kind",
                spec(json!({"dataSourceRef": {"name": "a", "kind": "Pod"}})),
                &[
                    "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                    "spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                ],
            ),
            (
                "group",
                spec(json!({"dataSourceRef": {"name": "a", "kind": "X", "apiGroup": "a_b"}})),
                &[
                    "spec.dataSource.apiGroup: Invalid value: \"a_b\": a lowercase…",
                    "spec.dataSourceRef.apiGroup: Invalid value: \"a_b\": a lowercase…",
                ],
            ),
            (
                "they differ",
                spec(json!({"dataSource": claim, "dataSourceRef": other})),
                &["spec: Invalid value: {}: must match dataSourceRef"],
            ),
            ("they agree", spec(json!({"dataSource": claim, "dataSourceRef": claim})), &[]),
        ],
    );
}

#[test]
fn status() {
    let status = |patch: Value| json!({"status": patch});
    check_status::<PersistentVolumeClaimRules>(
        &base(),
        &[
            (
                "bound",
                status(
                    json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending", "example.com/x": "NodeResizeInfeasible"}}),
                ),
                &[],
            ),
            ("any phase", status(json!({"phase": "Odd"})), &[]),
            (
                "capacity",
                status(json!({"capacity": {"storage": "-1"}})),
                &["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"],
            ),
            (
                "state",
                status(json!({"allocatedResourceStatuses": {"storage": "Growing"}})),
                &[
                    "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\"…",
                ],
            ),
            (
                "native name",
                status(json!({"allocatedResourceStatuses": {"cpu": "NodeResizePending"}})),
                &[
                    "status.allocatedResourceStatuses: Unsupported value: \"cpu\": supported values: \"storage\"",
                ],
            ),
            (
                "name",
                status(json!({"allocatedResources": {"a b": "1"}})),
                &["status.allocatedResources: Invalid value: \"a b\": name part must consist…"],
            ),
            (
                "amount",
                status(json!({"allocatedResources": {"storage": "-1"}})),
                &["status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity"],
            ),
        ],
    );
    let stored = reported::<PersistentVolumeClaimRules>(
        &patched(&base(), &json!({"spec": {"volumeName": "x"}, "status": {"phase": "Bound"}})),
        &base(),
    );
    assert_eq!((stored["spec"].get("volumeName"), &stored["status"]["phase"]), (None, &json!("Bound")));
    let stored = updated::<PersistentVolumeClaimRules>(
        &patched(&base(), &json!({"spec": {"volumeName": "x"}, "status": {"phase": "Bound"}})),
        &base(),
    );
    assert_eq!((&stored["spec"]["volumeName"], &stored["status"]["phase"]), (&json!("x"), &json!("Pending")));
}

#[test]
fn shown() {
    assert_eq!(
        header::<PersistentVolumeClaimRules>(),
        "NAME | STATUS | VOLUME | CAPACITY | ACCESS MODES | STORAGECLASS | VOLUMEATTRIBUTESCLASS | AGE | [VOLUMEMODE]"
    );
    assert_eq!(
        row::<PersistentVolumeClaimRules>(&base()),
        "data | Pending |  |  |  |  | <unset> | 10m | Filesystem"
    );
    let bound = json!({
        "spec": {"volumeName": "v", "storageClassName": "fast", "volumeAttributesClassName": "gold", "volumeMode": "Block"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadOnlyMany"], "capacity": {"storage": "2Gi"}},
    });
    let bound = patched(&base(), &bound);
    assert_eq!(
        row::<PersistentVolumeClaimRules>(&bound),
        "data | Bound | v | 2Gi | ROX,RWX | fast | gold | 10m | Block"
    );
    let deleting =
        patched(&bound, &json!({"metadata": {"deletionTimestamp": NOW}, "status": {"capacity": null}}));
    assert_eq!(
        row::<PersistentVolumeClaimRules>(&deleting),
        "data | Terminating | v | 0 | ROX,RWX | fast | gold | 10m | Block"
    );
}
