use serde_json::json;

use super::*;
use crate::kinds::lease::LeaseRules;

#[test]
fn rules_and_cells() {
    let base = json!({
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0},
    });
    check_create::<LeaseRules>(
        &base,
        &[
            (
                "duration",
                json!({"spec": {"leaseDurationSeconds": 0}}),
                &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
            ),
            (
                "transitions",
                json!({"spec": {"leaseTransitions": -1}}),
                &["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
            ),
            ("no spec", json!({"spec": null}), &[]),
        ],
    );
    let elected =
        patched(&base, &json!({"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "you"}}));
    assert_eq!(
        created::<LeaseRules>(&elected)["spec"],
        created::<LeaseRules>(&base)["spec"],
        "a closed gate"
    );
    assert_eq!(header::<LeaseRules>(), "NAME | HOLDER | AGE");
    assert_eq!(row::<LeaseRules>(&base), "l | me | 10m");
}
