use serde_json::json;

use super::*;
use crate::kinds::secret::SecretRules;

fn base() -> Value {
    json!({"metadata": {"name": "s", "namespace": "default"}, "data": {"a": "MQ=="}})
}

#[test]
fn text_becomes_data() {
    let patch = json!({"stringData": {"a": "new", "b": "c"}});
    let stored = created::<SecretRules>(&patched(&base(), &patch));
    assert_eq!(stored["type"], "Opaque");
    assert_eq!(stored["data"], json!({"a": "bmV3", "b": "Yw=="}));
    assert_eq!(stored.get("stringData"), None);
    let stored = updated::<SecretRules>(&patched(&base(), &patch), &base());
    assert_eq!(stored["data"], json!({"a": "bmV3", "b": "Yw=="}));
}

#[test]
fn types_need_their_keys() {
    check_create::<SecretRules>(
        &base(),
        &[
            ("own type", json!({"type": "example.com/x"}), &[]),
            (
                "key",
                json!({"data": {"a b": ""}}),
                &["data[a b]: Invalid value: \"a b\": a valid config key…"],
            ),
            (
                "token",
                json!({"type": "kubernetes.io/service-account-token"}),
                &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            ("docker", json!({"type": "kubernetes.io/dockercfg"}), &["data[.dockercfg]: Required value"]),
            (
                "docker text",
                json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "c2VjcmV0"}}),
                &[
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": must be a JSON object",
                ],
            ),
            (
                "basic",
                json!({"type": "kubernetes.io/basic-auth"}),
                &["data[username]: Required value", "data[password]: Required value"],
            ),
            (
                "basic with one",
                json!({"type": "kubernetes.io/basic-auth", "data": {"password": "MQ=="}}),
                &[],
            ),
            ("ssh", json!({"type": "kubernetes.io/ssh-auth"}), &["data[ssh-privatekey]: Required value"]),
            (
                "tls",
                json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "MQ=="}}),
                &["data[tls.key]: Required value"],
            ),
        ],
    );
}

#[test]
fn size() {
    let text = "x".repeat((1 << 20) + 1);
    let patch = json!({"stringData": {"a": text}});
    let errors = create_errors::<SecretRules>(&patched(&base(), &patch));
    assert_errors("size", errors, &["data: Too long: may not be more than 1048576 bytes"]);
}

#[test]
fn fixed() {
    check_update::<SecretRules>(
        &base(),
        &[
            ("data", json!({"data": {"a": "Mg=="}}), &[]),
            (
                "type",
                json!({"type": "example.com/x"}),
                &["type: Invalid value: \"example.com/x\": field is immutable"],
            ),
        ],
    );
    check_update::<SecretRules>(
        &patched(&base(), &json!({"immutable": true})),
        &[
            (
                "data",
                json!({"data": {"a": "Mg=="}}),
                &["data: Forbidden: field is immutable when `immutable` is set"],
            ),
            (
                "no bytes",
                json!({"data": {"z": ""}}),
                &["data: Forbidden: field is immutable when `immutable` is set"],
            ),
            (
                "text",
                json!({"stringData": {"z": "1"}}),
                &["data: Forbidden: field is immutable when `immutable` is set"],
            ),
            (
                "unmark",
                json!({"immutable": false}),
                &["immutable: Forbidden: field is immutable when `immutable` is set"],
            ),
        ],
    );
}

#[test]
fn shown() {
    assert_eq!(header::<SecretRules>(), "NAME | TYPE | DATA | AGE");
    assert_eq!(row::<SecretRules>(&base()), "s | Opaque | 1 | 10m");
    assert_eq!(labels::<SecretRules>(&base()), ["type=Opaque"]);
}
