use serde_json::json;

use super::*;
use crate::kinds::configmap::ConfigMapRules;
use crate::kinds::csistoragecapacity::CSIStorageCapacityRules;
use crate::kinds::serviceaccount::ServiceAccountRules;

fn base() -> Value {
    json!({"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "1"}, "binaryData": {"b": "AAE="}})
}

#[test]
fn keys_and_sizes() {
    let large = "x".repeat((1 << 20) + 1);
    check_create::<ConfigMapRules>(
        &base(),
        &[
            (
                "key",
                json!({"data": {"a/b": ""}}),
                &["data[a/b]: Invalid value: \"a/b\": a valid config key…"],
            ),
            (
                "climbing key",
                json!({"data": {"..": ""}}),
                &["data[..]: Invalid value: \"..\": must not be '..'"],
            ),
            (
                "key in both",
                json!({"data": {"b": "2"}}),
                &["data[b]: Invalid value: \"b\": duplicate of key present in binaryData"],
            ),
            (
                "binary key",
                json!({"binaryData": {" ": ""}}),
                &["binaryData[ ]: Invalid value: \" \": a valid config key…"],
            ),
            ("size", json!({"data": {"a": large}}), &["[]: Too long: may not be more than 1048576 bytes"]),
        ],
    );
}

#[test]
fn immutable_once_marked() {
    let frozen = patched(&base(), &json!({"immutable": true}));
    const FROZEN: &str = "Forbidden: field is immutable when `immutable` is set";
    check_update::<ConfigMapRules>(&base(), &[("free", json!({"data": {"a": "2"}, "immutable": true}), &[])]);
    check_update::<ConfigMapRules>(
        &frozen,
        &[
            ("labels", json!({"metadata": {"labels": {"a": "b"}}}), &[]),
            ("unmark", json!({"immutable": null}), &[&format!("immutable: {FROZEN}")]),
            ("data", json!({"data": {"a": "2"}}), &[&format!("data: {FROZEN}")]),
            ("empty text", json!({"data": {"z": ""}}), &[&format!("data: {FROZEN}")]),
            ("no bytes", json!({"binaryData": {"z": ""}}), &[&format!("binaryData: {FROZEN}")]),
            ("binary", json!({"binaryData": null}), &[&format!("binaryData: {FROZEN}")]),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(header::<ConfigMapRules>(), "NAME | DATA | AGE");
    assert_eq!(row::<ConfigMapRules>(&base()), "c | 2 | 10m");
    assert_eq!(header::<ServiceAccountRules>(), "NAME | AGE");
    assert_eq!(row::<ServiceAccountRules>(&json!({"metadata": {"name": "default"}})), "default | 10m");
}

#[test]
fn storage_capacity() {
    let base = json!({
        "metadata": {"name": "c", "namespace": "default"},
        "storageClassName": "fast", "capacity": "1024Mi", "nodeTopology": {"matchLabels": {"zone": "a"}},
    });
    check_create::<CSIStorageCapacityRules>(
        &base,
        &[
            (
                "class",
                json!({"storageClassName": null}),
                &["storageClassName: Invalid value: \"\": a lowercase RFC 1123…"],
            ),
            (
                "less than none",
                json!({"capacity": "-1"}),
                &["capacity: Invalid value: \"-1\": must be greater than or equal to 0"],
            ),
            (
                "topology",
                json!({"nodeTopology": {"matchExpressions": [{"key": "zone", "operator": "Near"}]}}),
                &[
                    "nodeTopology.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
                ],
            ),
            ("any maximum", json!({"maximumVolumeSize": "-5"}), &[]),
        ],
    );
    check_update::<CSIStorageCapacityRules>(
        &base,
        &[
            ("capacity", json!({"capacity": "2Gi"}), &[]),
            (
                "class",
                json!({"storageClassName": "slow"}),
                &["storageClassName: Invalid value: \"slow\": field is immutable"],
            ),
            (
                "topology",
                json!({"nodeTopology": null}),
                &["nodeTopology: Invalid value: null: field is immutable"],
            ),
        ],
    );
    assert_eq!(created::<CSIStorageCapacityRules>(&base)["capacity"], "1Gi");
    assert_eq!(header::<CSIStorageCapacityRules>(), "NAME | CREATED AT");
    assert_eq!(row::<CSIStorageCapacityRules>(&base), format!("c | {CREATED}"));
    assert_eq!(CSIStorageCapacityRules::columns()[1].type_, "date");
}
