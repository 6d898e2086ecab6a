use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;

use super::super::decide::parameters::{Names, for_driver, fs_type, secrets};
use super::super::decide::template::expand;

fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn annotations() -> BTreeMap<String, String> {
    given(&[("example.com/team", "blue")])
}

fn names(annotations: &BTreeMap<String, String>) -> Names<'_> {
    Names { volume: "pvc-1", claim_namespace: "ns", claim_name: "data", annotations: Some(annotations) }
}

fn secret(namespace: &str, name: &str) -> Option<SecretReference> {
    Some(SecretReference { name: Some(name.into()), namespace: Some(namespace.into()) })
}

#[test]
fn templates() {
    let value = |token: &str| (token == "a.b" || token == "word").then(|| "X".to_owned());
    let table = [
        ("plain", Ok("plain")),
        ("-${a.b}-", Ok("-X-")),
        ("$word-", Ok("X-")),
        ("cost $", Ok("cost $")),
        ("$ {a}", Ok("$ {a}")),
        ("${}x", Ok("x")),
        ("${a.c}${d}", Err("invalid tokens: [\"a.c\", \"d\"]")),
        ("$a.b", Err("invalid tokens: [\"a\"]")),
    ];
    for (text, expected) in table {
        let got = expand(text, value);
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

#[test]
fn filesystems() {
    assert_eq!(fs_type(&given(&[])), Ok(None));
    assert_eq!(fs_type(&given(&[("csi.storage.k8s.io/fstype", "xfs")])), Ok(Some("xfs".into())));
    assert_eq!(fs_type(&given(&[("FSType", "ext4")])), Ok(Some("ext4".into())));
    assert!(fs_type(&given(&[("fstype", "a"), ("csi.storage.k8s.io/fstype", "b")])).is_err());
}

#[test]
fn what_the_driver_is_told() {
    let all = given(&[
        ("csi.storage.k8s.io/fstype", "xfs"),
        ("csi.storage.k8s.io/node-stage-secret-name", "s"),
        ("csi.storage.k8s.io/secret-namespace", "s"),
        ("csiProvisionerSecretName", "s"),
        ("fstype", "xfs"),
        ("tier", "gold"),
    ]);
    let passed = for_driver(&all).unwrap();
    assert_eq!(passed.keys().collect::<Vec<_>>(), ["csiProvisionerSecretName", "fstype", "tier"]);
    assert!(for_driver(&given(&[("csi.storage.k8s.io/colour", "red")])).is_err());
}

#[test]
fn secrets_by_purpose() {
    let annotations = annotations();
    let names = names(&annotations);
    let own = given(&[
        ("csi.storage.k8s.io/provisioner-secret-name", "${pvc.annotations['example.com/team']}-${pvc.name}"),
        ("csi.storage.k8s.io/provisioner-secret-namespace", "${pvc.namespace}"),
        ("csi.storage.k8s.io/secret-name", "shared-${pv.name}"),
        ("csi.storage.k8s.io/secret-namespace", "infra"),
        ("csiNodeStageSecretName", "old"),
        ("csiNodeStageSecretNamespace", "older"),
    ]);
    let found = secrets(&own, &names).unwrap();
    assert_eq!(found.provisioner, secret("ns", "blue-data"));
    assert_eq!(found.node_stage, secret("older", "old"));
    assert_eq!(found.node_publish, secret("infra", "shared-pvc-1"), "the default for the rest");
    assert_eq!(secrets(&given(&[]), &names).unwrap(), Default::default());
}

#[test]
fn secrets_that_make_no_sense() {
    let annotations = annotations();
    let key = |part: &str| format!("csi.storage.k8s.io/provisioner-secret-{part}");
    let both = |name: &str, namespace: &str| given(&[(&key("name"), name), (&key("namespace"), namespace)]);
    let mut old_and_new = both("a", "b");
    old_and_new.insert("csiProvisionerSecretName".into(), "c".into());
    let table = [
        ("name alone", given(&[(&key("name"), "a")])),
        ("empty name", both("", "b")),
        ("claim name in the namespace", both("a", "${pvc.name}")),
        ("unknown token", both("${pod.name}", "b")),
        ("missing annotation", both("${pvc.annotations['none']}", "b")),
        ("not a name", both("A_b", "b")),
        ("not a namespace", both("a", "b.c")),
        ("old and new", old_and_new),
    ];
    for (name, given) in table {
        assert!(secrets(&given, &names(&annotations)).is_err(), "{name}");
    }
}
