use serde_json::json;

use super::*;
use crate::kinds::volumeattachment::VolumeAttachmentRules;

fn base() -> Value {
    json!({
        "metadata": {"name": "a", "finalizers": ["external-attacher/d"]},
        "spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    })
}

fn inline(patch: Value) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}});
    json!({"spec": {"source": {"persistentVolumeName": null, "inlineVolumeSpec": patched(&spec, &patch)}}})
}

#[test]
fn rules() {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let both = patched(&inline(json!({})), &json!({"spec": {"source": {"persistentVolumeName": "v"}}}));
    let no_inline = |field: &str| {
        format!(
            "spec.source.inlineVolumeSpec.{field}: Forbidden: may not be specified in the context of inline volumes"
        )
    };
    check_create::<VolumeAttachmentRules>(
        &base(),
        &[
            ("attacher", json!({"spec": {"attacher": ""}}), &["spec.attacher: Required value"]),
            (
                "long attacher",
                json!({"spec": {"attacher": "d".repeat(64)}}),
                &["spec.attacher: Too long: may not be more than 63 bytes"],
            ),
            (
                "node",
                json!({"spec": {"nodeName": ""}}),
                &["spec.nodeName: Invalid value: \"\": a lowercase RFC 1123 subdomain…"],
            ),
            (
                "no source",
                json!({"spec": {"source": {"persistentVolumeName": null}}}),
                &[&format!("spec.source: Required value: {ONE}")],
            ),
            ("two sources", both, &[&format!("spec.source: Forbidden: {ONE}")]),
            (
                "empty name",
                json!({"spec": {"source": {"persistentVolumeName": ""}}}),
                &[
                    "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
                    "spec.source.persistentVolumeName: Invalid value: \"\": a lowercase…",
                ],
            ),
            ("inline", inline(json!({})), &[]),
            (
                "inline not csi",
                inline(json!({"csi": null, "hostPath": {"path": "/x"}})),
                &[
                    "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
                ],
            ),
            ("inline claim", inline(json!({"claimRef": {"name": "c"}})), &[&no_inline("claimRef")]),
            ("inline capacity", inline(json!({"capacity": {"storage": "1Gi"}})), &[&no_inline("capacity")]),
            ("inline affinity", inline(json!({"nodeAffinity": {}})), &[&no_inline("nodeAffinity")]),
            ("inline class", inline(json!({"storageClassName": "x"})), &[&no_inline("storageClassName")]),
            (
                "inline policy",
                inline(json!({"persistentVolumeReclaimPolicy": "Delete"})),
                &[
                    "spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
                ],
            ),
            (
                "inline block",
                inline(json!({"volumeMode": "Block"})),
                &[
                    "spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
                ],
            ),
        ],
    );
}

#[test]
fn the_spec_is_fixed() {
    check_update::<VolumeAttachmentRules>(
        &base(),
        &[
            ("metadata", json!({"metadata": {"finalizers": [], "annotations": {"a": "b"}}}), &[]),
            ("node", json!({"spec": {"nodeName": "m"}}), &["spec: Invalid value: {…"]),
        ],
    );
}

#[test]
fn the_status_is_its_own() {
    let attached = json!({"metadata": {"finalizers": [], "annotations": {"a": "b"}}, "spec": {"nodeName": "m"}, "status": {"attached": true}});
    let new = patched(&base(), &attached);
    assert_eq!(created::<VolumeAttachmentRules>(&new)["status"], json!({"attached": false}));
    assert_eq!(updated::<VolumeAttachmentRules>(&new, &base())["status"], json!({"attached": false}));
    let stored = reported::<VolumeAttachmentRules>(&new, &base());
    assert_eq!(stored["status"], json!({"attached": true}));
    assert_eq!((&stored["metadata"], &stored["spec"]), (&base()["metadata"], &base()["spec"]));
    let long = "x".repeat(1025);
    check_status::<VolumeAttachmentRules>(
        &base(),
        &[
            (
                "error",
                json!({"status": {"attached": false, "attachError": {"message": "x".repeat(1024), "errorCode": 8}}}),
                &[],
            ),
            (
                "attach error",
                json!({"status": {"attached": false, "attachError": {"message": long}}}),
                &["status.attachError.message: Too long: may not be more than 262144 bytes"],
            ),
            (
                "detach error",
                json!({"status": {"attached": false, "detachError": {"message": long}}}),
                &["status.detachError.message: Too long: may not be more than 262144 bytes"],
            ),
            (
                "code",
                json!({"status": {"attached": false, "attachError": {"errorCode": -1}}}),
                &[
                    "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                ],
            ),
            (
                "metadata",
                json!({"status": {"attached": true, "attachmentMetadata": {"a": "x".repeat(256 << 10)}}}),
                &["status.attachmentMetadata: Too long: may not be more than 262144 bytes"],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(header::<VolumeAttachmentRules>(), "NAME | ATTACHER | PV | NODE | ATTACHED | AGE");
    assert_eq!(row::<VolumeAttachmentRules>(&base()), "a | d.example.com | v | n | false | 10m");
    let inline = patched(&patched(&base(), &inline(json!({}))), &json!({"status": {"attached": true}}));
    assert_eq!(row::<VolumeAttachmentRules>(&inline), "a | d.example.com |  | n | true | 10m");
    assert_eq!(VolumeAttachmentRules::columns()[1].format, "name", "as upstream has it");
}
