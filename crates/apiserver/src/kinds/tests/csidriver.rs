use serde_json::json;

use super::*;
use crate::kinds::csidriver::CSIDriverRules;

fn base() -> Value {
    json!({"metadata": {"name": "d.example.com"}, "spec": {}})
}

#[test]
fn filled_in() {
    let stored = created::<CSIDriverRules>(&patched(
        &base(),
        &json!({"spec": {"preventPodSchedulingIfMissing": true}}),
    ));
    let want = json!({
        "attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "requiresRepublish": false,
        "seLinuxMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
    });
    assert_eq!(stored["spec"], want);
}

/// Changes are counted, the creation is not.
#[test]
fn generations() {
    let first = created::<CSIDriverRules>(&base());
    assert_eq!(first["metadata"].get("generation"), None);
    let second =
        updated::<CSIDriverRules>(&patched(&first, &json!({"spec": {"podInfoOnMount": true}})), &first);
    assert_eq!(second["metadata"]["generation"], 1);
    assert_eq!(updated::<CSIDriverRules>(&second, &second)["metadata"]["generation"], 1);
}

#[test]
fn rules() {
    check_create::<CSIDriverRules>(
        &base(),
        &[
            (
                "policy",
                json!({"spec": {"fsGroupPolicy": "Some"}}),
                &[
                    "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
                ],
            ),
            (
                "mode",
                json!({"spec": {"volumeLifecycleModes": ["Brief"]}}),
                &[
                    "spec.volumeLifecycleModes: Unsupported value: \"Brief\": supported values: \"Persistent\", \"Ephemeral\"",
                ],
            ),
            (
                "audience twice",
                json!({"spec": {"tokenRequests": [{"audience": "a"}, {"audience": "a", "expirationSeconds": 1}]}}),
                &["spec.tokenRequests[1].audience: Duplicate value: \"a\""],
            ),
            (
                "short token",
                json!({"spec": {"tokenRequests": [{"audience": "", "expirationSeconds": 599}]}}),
                &[
                    "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                ],
            ),
            (
                "long token",
                json!({"spec": {"tokenRequests": [{"audience": "", "expirationSeconds": 4294967297i64}]}}),
                &[
                    "spec.tokenRequests[0].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
                ],
            ),
            (
                "longest token",
                json!({"spec": {"tokenRequests": [{"audience": "", "expirationSeconds": 4294967296i64}]}}),
                &[],
            ),
            (
                "period",
                json!({"spec": {"nodeAllocatableUpdatePeriodSeconds": 9}}),
                &[
                    "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
                ],
            ),
            (
                "tokens without requests",
                json!({"spec": {"serviceAccountTokenInSecrets": false}}),
                &[
                    "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
                ],
            ),
            (
                "tokens",
                json!({"spec": {"serviceAccountTokenInSecrets": true, "tokenRequests": [{"audience": "a"}]}}),
                &[],
            ),
        ],
    );
}

#[test]
fn fixed() {
    check_update::<CSIDriverRules>(
        &base(),
        &[
            (
                "attach",
                json!({"spec": {"attachRequired": false}}),
                &["spec.attachedRequired: Invalid value: false: field is immutable"],
            ),
            (
                "modes",
                json!({"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
                &["spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable"],
            ),
            (
                "the rest",
                json!({"spec": {"podInfoOnMount": true, "storageCapacity": true, "fsGroupPolicy": "File", "requiresRepublish": true, "seLinuxMount": true, "nodeAllocatableUpdatePeriodSeconds": 10, "tokenRequests": [{"audience": "a"}]}}),
                &[],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(
        header::<CSIDriverRules>(),
        "NAME | ATTACHREQUIRED | PODINFOONMOUNT | STORAGECAPACITY | TOKENREQUESTS | REQUIRESREPUBLISH | MODES | AGE"
    );
    assert_eq!(
        row::<CSIDriverRules>(&base()),
        "d.example.com | true | false | false | <unset> | false | Persistent | 10m"
    );
    let all = json!({"spec": {"tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
    assert_eq!(
        row::<CSIDriverRules>(&patched(&base(), &all)),
        "d.example.com | true | false | false | a,b | false | Persistent,Ephemeral | 10m"
    );
}
