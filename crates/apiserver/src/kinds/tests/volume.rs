use serde_json::json;

use super::*;
use crate::kinds::persistentvolume::PersistentVolumeRules;
use crate::kinds::pod::PodRules;

pub fn base() -> Value {
    json!({
        "metadata": {"name": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1024Mi"}, "storageClassName": "fast",
            "csi": {"driver": "d.example.com", "volumeHandle": "pool^7"},
        },
    })
}

fn spec(patch: Value) -> Value {
    json!({"spec": patch})
}

#[test]
fn filled_in() {
    let stored = created::<PersistentVolumeRules>(&patched(
        &base(),
        &json!({"status": {"phase": "Bound", "reason": "x"}}),
    ));
    assert_eq!(stored["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(stored["spec"]["volumeMode"], "Filesystem");
    assert_eq!(stored["spec"]["capacity"]["storage"], "1Gi");
    assert_eq!(stored["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": NOW}));
}

#[test]
fn the_status_is_its_own() {
    let old = patched(&base(), &json!({"status": {"phase": "Pending", "lastPhaseTransitionTime": CREATED}}));
    let moved =
        |patch: Value| reported::<PersistentVolumeRules>(&patched(&old, &patch), &old)["status"].clone();
    let at = "2020-01-01T00:00:00Z";
    let table = [
        (
            json!({"status": {"phase": "Available"}}),
            json!({"phase": "Available", "lastPhaseTransitionTime": NOW}),
        ),
        (
            json!({"status": {"phase": "Available", "lastPhaseTransitionTime": null}}),
            json!({"phase": "Available", "lastPhaseTransitionTime": NOW}),
        ),
        (
            json!({"status": {"phase": "Available", "lastPhaseTransitionTime": at}}),
            json!({"phase": "Available", "lastPhaseTransitionTime": at}),
        ),
        (
            json!({"status": {"lastPhaseTransitionTime": null}}),
            json!({"phase": "Pending", "lastPhaseTransitionTime": CREATED}),
        ),
        (
            json!({"status": {"lastPhaseTransitionTime": at}}),
            json!({"phase": "Pending", "lastPhaseTransitionTime": at}),
        ),
    ];
    for (patch, want) in table {
        assert_eq!(moved(patch.clone()), want, "{patch}");
    }
    let both = patched(
        &old,
        &json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"storageClassName": "x"}, "status": {"phase": "Available"}}),
    );
    let stored = reported::<PersistentVolumeRules>(&both, &old);
    assert_eq!(
        (&stored["spec"]["storageClassName"], &stored["metadata"]["annotations"]["a"]),
        (&json!("fast"), &json!("b"))
    );
    let stored = updated::<PersistentVolumeRules>(&both, &old);
    assert_eq!(
        (&stored["spec"]["storageClassName"], &stored["status"]["phase"]),
        (&json!("x"), &json!("Pending"))
    );
}

#[test]
fn modes_capacity_and_policy() {
    check_create::<PersistentVolumeRules>(
        &base(),
        &[
            ("no modes", spec(json!({"accessModes": []})), &["spec.accessModes: Required value"]),
            (
                "mode",
                spec(json!({"accessModes": ["Some"]})),
                &[
                    "spec.accessModes: Unsupported value: \"Some\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                ],
            ),
            ("one pod", spec(json!({"accessModes": ["ReadWriteOncePod"]})), &[]),
            (
                "one pod and more",
                spec(json!({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]})),
                &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
            ),
            (
                "no capacity",
                spec(json!({"capacity": null})),
                &[
                    "spec.capacity: Required value",
                    "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                ],
            ),
            (
                "two capacities",
                spec(json!({"capacity": {"cpu": "1"}})),
                &[
                    "spec.capacity: Unsupported value: {\"cpu\":\"1\",\"storage\":\"1Gi\"}: supported values: \"storage\"",
                ],
            ),
            (
                "zero",
                spec(json!({"capacity": {"storage": "0"}})),
                &["spec.capacity[storage]: Invalid value: \"0\": must be greater than zero"],
            ),
            (
                "negative",
                spec(json!({"capacity": {"storage": "-1Gi"}})),
                &[
                    "spec.capacity[storage]: Invalid value: -1073741824: must be a valid resource quantity",
                    "spec.capacity[storage]: Invalid value: \"-1Gi\": must be greater than zero",
                ],
            ),
            (
                "policy",
                spec(json!({"persistentVolumeReclaimPolicy": "Keep"})),
                &[
                    "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
                ],
            ),
            (
                "root",
                spec(
                    json!({"csi": null, "hostPath": {"path": "/a/.."}, "persistentVolumeReclaimPolicy": "Recycle"}),
                ),
                &[
                    "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                    "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                ],
            ),
            (
                "mode of volume",
                spec(json!({"volumeMode": "Tape"})),
                &[
                    "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
                ],
            ),
            (
                "class",
                spec(json!({"storageClassName": "A"})),
                &["spec.storageClassName: Invalid value: \"A\": a lowercase RFC 1123 subdomain…"],
            ),
            ("attributes", spec(json!({"volumeAttributesClassName": "gold"})), &[]),
            (
                "empty attributes",
                spec(json!({"volumeAttributesClassName": ""})),
                &["spec.volumeAttributesClassName: Required value: an empty string is disallowed"],
            ),
            (
                "attributes without csi",
                spec(json!({"volumeAttributesClassName": "gold", "csi": null, "hostPath": {"path": "/x"}})),
                &["spec.csi: Required value: has to be specified when using volumeAttributesClassName"],
            ),
        ],
    );
}

#[test]
fn sources() {
    let secret = |name: &str| json!({"csi": {name: {"name": "s"}}});
    let missing = |name: &str| format!("spec.csi.{name}.namespace: Required value");
    let options = json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/mount-options": "ro"}}});
    let nfs_options = json!({
        "metadata": options["metadata"],
        "spec": {"csi": null, "nfs": {"server": "s", "path": "/"}},
    });
    check_create::<PersistentVolumeRules>(
        &base(),
        &[
            ("none", spec(json!({"csi": null})), &["spec: Required value: must specify a volume type"]),
            (
                "two",
                spec(json!({"hostPath": {"path": "/x"}})),
                &["spec.csi: Forbidden: may not specify more than 1 volume type"],
            ),
            ("no driver", spec(json!({"csi": {"driver": ""}})), &["spec.csi.driver: Required value"]),
            ("driver in capitals", spec(json!({"csi": {"driver": "D.Example.com"}})), &[]),
            (
                "driver",
                spec(json!({"csi": {"driver": "d_e"}})),
                &["spec.csi.driver: Invalid value: \"d_e\": a lowercase RFC 1123 subdomain…"],
            ),
            (
                "long driver",
                spec(json!({"csi": {"driver": "d".repeat(64)}})),
                &["spec.csi.driver: Too long: may not be more than 63 bytes"],
            ),
            (
                "no handle",
                spec(json!({"csi": {"volumeHandle": ""}})),
                &["spec.csi.volumeHandle: Required value"],
            ),
            (
                "publish secret",
                spec(secret("controllerPublishSecretRef")),
                &[&missing("controllerPublishSecretRef")],
            ),
            (
                "expand secret",
                spec(secret("controllerExpandSecretRef")),
                &[&missing("controllerExpandSecretRef")],
            ),
            (
                "node publish secret",
                spec(secret("nodePublishSecretRef")),
                &[&missing("nodePublishSecretRef")],
            ),
            ("node expand secret", spec(secret("nodeExpandSecretRef")), &[&missing("nodeExpandSecretRef")]),
            ("stage secret is not looked at", spec(secret("nodeStageSecretRef")), &[]),
            (
                "nfs",
                spec(json!({"csi": null, "nfs": {"server": "", "path": "x"}})),
                &[
                    "spec.nfs.server: Required value",
                    "spec.nfs.path: Invalid value: \"x\": must be an absolute path",
                ],
            ),
            (
                "host path type",
                spec(json!({"csi": null, "hostPath": {"path": "/x", "type": "Thing"}})),
                &[
                    "spec.hostPath.type: Unsupported value: \"Thing\": supported values: \"\", \"BlockDevice\"…",
                ],
            ),
            (
                "mount options",
                options,
                &[
                    "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type",
                ],
            ),
            ("mount options of an old type", nfs_options, &[]),
        ],
    );
}

#[test]
fn affinity() {
    let affinity = |term: Value| spec(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}));
    let rule = |rule: Value| affinity(json!({"matchExpressions": [rule]}));
    let field = |rule: Value| affinity(json!({"matchFields": [rule]}));
    let local = json!({"csi": null, "local": {"path": "/x"}});
    let at = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]";
    let at_field = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields[0]";
    check_create::<PersistentVolumeRules>(
        &base(),
        &[
            (
                "nothing required",
                spec(json!({"nodeAffinity": {}})),
                &["spec.nodeAffinity.required: Required value: must specify required node constraints"],
            ),
            (
                "no terms",
                spec(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": []}}})),
                &[
                    "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term",
                ],
            ),
            (
                "in",
                rule(json!({"key": "zone", "operator": "In"})),
                &[&format!(
                    "{at}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
                )],
            ),
            (
                "exists",
                rule(json!({"key": "zone", "operator": "Exists", "values": ["a"]})),
                &[&format!(
                    "{at}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )],
            ),
            (
                "more",
                rule(json!({"key": "n", "operator": "Gt", "values": ["1", "2"]})),
                &[&format!(
                    "{at}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
                )],
            ),
            (
                "operator",
                rule(json!({"key": "zone", "operator": "Near"})),
                &[&format!("{at}.operator: Invalid value: \"Near\": not a valid selector operator")],
            ),
            (
                "value",
                rule(json!({"key": "zone", "operator": "In", "values": ["a b"]})),
                &[&format!("{at}.values[0]: Invalid value: \"a b\": a valid label must be…")],
            ),
            ("field", field(json!({"key": "metadata.name", "operator": "In", "values": ["n"]})), &[]),
            (
                "two names",
                field(json!({"key": "metadata.name", "operator": "In", "values": ["n", "m"]})),
                &[&format!(
                    "{at_field}.values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
                )],
            ),
            (
                "other field",
                field(json!({"key": "spec.x", "operator": "In", "values": ["n"]})),
                &[&format!("{at_field}.key: Invalid value: \"spec.x\": not a valid field selector key")],
            ),
            (
                "local",
                spec(local.clone()),
                &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
            ),
            (
                "local with affinity",
                patched(&spec(local), &rule(json!({"key": "zone", "operator": "Exists"}))),
                &[],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(
        header::<PersistentVolumeRules>(),
        "NAME | CAPACITY | ACCESS MODES | RECLAIM POLICY | STATUS | CLAIM | STORAGECLASS | VOLUMEATTRIBUTESCLASS | REASON | AGE | [VOLUMEMODE]"
    );
    assert_eq!(
        row::<PersistentVolumeRules>(&base()),
        "v | 1Gi | RWO | Retain | Pending |  | fast | <unset> |  | 10m | Filesystem"
    );
    let full = json!({
        "metadata": {"deletionTimestamp": NOW, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        "spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteOnce"], "claimRef": {"namespace": "ns", "name": "data"}, "volumeAttributesClassName": "gold", "volumeMode": "Block", "persistentVolumeReclaimPolicy": "Delete"},
        "status": {"phase": "Bound", "reason": "why"},
    });
    assert_eq!(
        row::<PersistentVolumeRules>(&patched(&base(), &full)),
        "v | 1Gi | RWO,RWX,RWOP | Delete | Terminating | ns/data | old | gold | why | 10m | Block"
    );
}

/// As upstream's server fills them.
#[test]
fn sources_of_old_plugins_get_their_defaults() {
    let table = [
        ("iscsi", json!({"targetPortal": "a", "iqn": "b", "lun": 0}), json!({"iscsiInterface": "default"})),
        (
            "rbd",
            json!({"monitors": ["a"], "image": "i", "keyring": ""}),
            json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ),
        (
            "scaleIO",
            json!({"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "a"}}),
            json!({"fsType": "xfs", "storageMode": "ThinProvisioned"}),
        ),
        (
            "azureDisk",
            json!({"diskName": "a", "diskURI": "b"}),
            json!({"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": false}),
        ),
    ];
    for (source, given, added) in table {
        let volume = patched(&base(), &json!({"spec": {"csi": null, (source): given}}));
        let want = patched(&given, &added);
        assert_eq!(created::<PersistentVolumeRules>(&volume)["spec"][source], want, "{source}");
        let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", (source): given}]}});
        assert_eq!(created::<PodRules>(&pod)["spec"]["volumes"][0][source], want, "{source} of a pod");
    }
}

/// Upstream fills in defaults when it reads as well.
#[test]
fn what_was_stored_before_a_default_came_may_change() {
    let given = json!({"targetPortal": "a", "iqn": "b", "lun": 0});
    let old =
        created::<PersistentVolumeRules>(&patched(&base(), &json!({"spec": {"csi": null, "iscsi": given}})));
    let older = patched(&old, &json!({"spec": {"iscsi": {"iscsiInterface": null}}}));
    let kind = Erased::<PersistentVolumeRules>::new();
    let prepared = kind.prepare_update(old, &older, Part::Main, now()).unwrap();
    assert_errors("the same", prepared.errors, &[]);
}
