use serde_json::json;

use super::*;
use crate::kinds::storageclass::StorageClassRules;

fn base() -> Value {
    json!({"metadata": {"name": "fast"}, "provisioner": "D.example.com", "parameters": {"type": "ssd"}})
}

#[test]
fn filled_in() {
    let stored = created::<StorageClassRules>(&base());
    assert_eq!(stored["reclaimPolicy"], "Delete");
    assert_eq!(stored["volumeBindingMode"], "Immediate");
}

#[test]
fn rules() {
    let many: serde_json::Map<String, Value> = (0..513).map(|n| (format!("k{n}"), "v".into())).collect();
    let term = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]);
    let term_twice = json!([
        {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]},
        {"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]},
    ]);
    check_create::<StorageClassRules>(
        &base(),
        &[
            ("no provisioner", json!({"provisioner": null}), &["provisioner: Required value"]),
            (
                "provisioner",
                json!({"provisioner": "A/B/c"}),
                &["provisioner: Invalid value: \"a/b/c\": a valid label key…"],
            ),
            (
                "recycle",
                json!({"reclaimPolicy": "Recycle"}),
                &["reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\""],
            ),
            (
                "mode",
                json!({"volumeBindingMode": "Later"}),
                &[
                    "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                ],
            ),
            (
                "unnamed parameter",
                json!({"parameters": {"": "x"}}),
                &["parameters: Invalid value: \"\": field can not be empty."],
            ),
            (
                "many parameters",
                json!({"parameters": many}),
                &["parameters: Too long: may not be more than 512 bytes"],
            ),
            (
                "long parameters",
                json!({"parameters": {"a": "x".repeat(256 << 10)}}),
                &["parameters: Too long: may not be more than 262144 bytes"],
            ),
            ("topology", json!({"allowedTopologies": term}), &[]),
            (
                "no values",
                json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": []}]}]}),
                &["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
            ),
            (
                "value twice",
                json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}]}),
                &["allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\""],
            ),
            (
                "key",
                json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "", "values": ["a"]}]}]}),
                &[
                    "allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: \"\": name part must be non-empty",
                    "allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: \"\": name part must consist…",
                ],
            ),
            (
                "key twice",
                json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}, {"key": "zone", "values": ["b"]}]}]}),
                &["allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"zone\""],
            ),
            (
                "term twice",
                json!({"allowedTopologies": term_twice}),
                &["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""],
            ),
            (
                "a term that asks for nothing",
                json!({"allowedTopologies": [{}]}),
                &["allowedTopologies[0].matchLabelExpressions: Duplicate value: \"\""],
            ),
            ("any mount options", json!({"mountOptions": ["", "x"]}), &[]),
        ],
    );
}

#[test]
fn fixed() {
    check_update::<StorageClassRules>(
        &base(),
        &[
            (
                "parameters",
                json!({"parameters": {"type": "hdd"}}),
                &["parameters: Invalid value: {\"type\":\"hdd\"}: field is immutable"],
            ),
            (
                "empty parameter",
                json!({"parameters": {"x": ""}}),
                &["parameters: Invalid value: {\"type\":\"ssd\",\"x\":\"\"}: field is immutable"],
            ),
            (
                "provisioner",
                json!({"provisioner": "x.example.com"}),
                &["provisioner: Invalid value: \"x.example.com\": field is immutable"],
            ),
            (
                "policy",
                json!({"reclaimPolicy": "Retain"}),
                &["reclaimPolicy: Invalid value: \"Retain\": field is immutable"],
            ),
            (
                "mode",
                json!({"volumeBindingMode": "WaitForFirstConsumer"}),
                &["volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable"],
            ),
            (
                "the rest",
                json!({"allowVolumeExpansion": true, "mountOptions": ["ro"], "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
                &[],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(
        header::<StorageClassRules>(),
        "NAME | PROVISIONER | RECLAIMPOLICY | VOLUMEBINDINGMODE | ALLOWVOLUMEEXPANSION | AGE"
    );
    assert_eq!(row::<StorageClassRules>(&base()), "fast | D.example.com | Delete | Immediate | false | 10m");
    let marked = json!({"allowVolumeExpansion": true, "metadata": {"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}});
    assert_eq!(
        row::<StorageClassRules>(&patched(&base(), &marked)),
        "fast (default) | D.example.com | Delete | Immediate | true | 10m"
    );
}
