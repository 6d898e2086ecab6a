use serde_json::json;

use super::*;
use crate::kinds::csinode::CSINodeRules;

fn base() -> Value {
    let driver = json!({"name": "d.example.com", "nodeID": "n1", "topologyKeys": ["zone"], "allocatable": {"count": 8}});
    json!({"metadata": {"name": "n"}, "spec": {"drivers": [driver]}})
}

fn with(driver: Value) -> Value {
    let patch = patched(&base()["spec"]["drivers"][0], &driver);
    json!({"spec": {"drivers": [patch]}})
}

#[test]
fn rules() {
    let twice = json!({"spec": {"drivers": [{"name": "d", "nodeID": "1"}, {"name": "d", "nodeID": "2"}]}});
    let long_name = "a".repeat(64);
    let long_id = "i".repeat(257);
    let long_id_error =
        format!("spec.drivers[0].nodeID: Invalid value: \"{long_id}\": must be 256 characters or less");
    check_create::<CSINodeRules>(
        &base(),
        &[
            ("none", json!({"spec": {"drivers": []}}), &[]),
            ("upper case", with(json!({"name": "D.example.com"})), &[]),
            ("no name", with(json!({"name": ""})), &["spec.drivers[0].name: Required value"]),
            (
                "long name",
                with(json!({"name": long_name})),
                &["spec.drivers[0].name: Too long: may not be more than 63 bytes"],
            ),
            (
                "name",
                with(json!({"name": "d_"})),
                &["spec.drivers[0].name: Invalid value: \"d_\": a lowercase RFC 1123 subdomain…"],
            ),
            ("no id", with(json!({"nodeID": ""})), &["spec.drivers[0].nodeID: Required value"]),
            ("long id", with(json!({"nodeID": long_id})), &[&long_id_error]),
            (
                "count",
                with(json!({"allocatable": {"count": -1}})),
                &["spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"],
            ),
            ("driver twice", twice, &["spec.drivers[1].name: Duplicate value: \"d\""]),
            (
                "key twice",
                with(json!({"topologyKeys": ["zone", "zone"]})),
                &["spec.drivers[0]: Duplicate value: \"zone\""],
            ),
            (
                "key",
                with(json!({"topologyKeys": ["a b"]})),
                &["spec.drivers[0]: Invalid value: \"a b\": name part must consist…"],
            ),
            (
                "no key",
                with(json!({"topologyKeys": [""]})),
                &[
                    "spec.drivers[0]: Required value",
                    "spec.drivers[0]: Invalid value: \"\": name part must be non-empty",
                    "spec.drivers[0]: Invalid value: \"\": name part must consist…",
                ],
            ),
        ],
    );
}

#[test]
fn entries_are_fixed() {
    check_update::<CSINodeRules>(
        &base(),
        &[
            ("limit", with(json!({"allocatable": {"count": 9}})), &[]),
            ("limit goes", with(json!({"allocatable": null})), &[]),
            ("entry goes", json!({"spec": {"drivers": []}}), &[]),
            (
                "entry comes",
                json!({"spec": {"drivers": [base()["spec"]["drivers"][0], {"name": "e", "nodeID": "1"}]}}),
                &[],
            ),
            (
                "id",
                with(json!({"nodeID": "n2"})),
                &[
                    "spec.drivers: Invalid value: {\"Name\":\"d.example.com\",\"NodeID\":\"n2\",\"TopologyKeys\":[\"zone\"],\"Allocatable\":null}: field is immutable",
                ],
            ),
            ("keys", with(json!({"topologyKeys": []})), &["spec.drivers: Invalid value: …"]),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(header::<CSINodeRules>(), "NAME | DRIVERS | AGE");
    assert_eq!(row::<CSINodeRules>(&base()), "n | 1 | 10m");
}
