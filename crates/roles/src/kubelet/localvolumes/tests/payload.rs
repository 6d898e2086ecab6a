//! What goes into a volume.

use bowline_machinery::Found;

use super::super::payload::{Entries, World, collect};
use super::super::plan::ObjectKind;
use super::*;

fn entries(of: &[(&str, &str)]) -> Found<Entries> {
    let owned = of.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
    Found::Present(owned.collect())
}

/// The files of a projected volume as `path=content mode`, or what is wrong.
fn collected(sources: Value) -> Result<Vec<String>, Files> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "1Mi"}}}]},
    }))
    .unwrap();
    let objects: BTreeMap<_, _> = [
        ((ObjectKind::ConfigMap, "map".to_owned()), entries(&[("a", "1"), ("b", "2")])),
        ((ObjectKind::Secret, "secret".to_owned()), entries(&[("password", "x")])),
        ((ObjectKind::ConfigMap, "none".to_owned()), Found::Absent),
        ((ObjectKind::Secret, "none".to_owned()), Found::Absent),
    ]
    .into();
    let tokens: BTreeMap<_, _> = [("token".to_owned(), token("t", 9))].into();
    let volume = volume(json!({"projected": {"defaultMode": 0o440, "sources": sources}}));
    let sources = plan(&volume).unwrap().sources.unwrap();
    let world = World { pod: &pod, node: None, objects: &objects, tokens: &tokens };
    match collect(&sources, &world) {
        Files::Ready(payload) => {
            let line = |(path, file): (&String, &File)| {
                format!("{path}={} {:o}", String::from_utf8(file.content.clone()).unwrap(), file.mode)
            };
            Ok(payload.iter().map(line).collect())
        }
        other => Err(other),
    }
}

#[test]
fn sources_become_files() {
    let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
    let memory = json!({"path": "m", "mode": 0o400, "resourceFieldRef": {
        "containerName": "main", "resource": "limits.memory", "divisor": "1Ki"}});
    let table = [
        (json!([{"configMap": {"name": "map"}}]), vec!["a=1 440", "b=2 440"]),
        (
            json!([{"configMap": {"name": "map", "items": [{"key": "b", "path": "deep/b", "mode": 0o600}]}}]),
            vec!["deep/b=2 600"],
        ),
        (json!([{"secret": {"name": "secret"}}]), vec!["password=x 440"]),
        (json!([{"serviceAccountToken": {"path": "token"}}]), vec!["token=t 440"]),
        (json!([{"downwardAPI": {"items": [field("metadata.labels")]}}]), vec!["f=app=\"web\" 440"]),
        (json!([{"downwardAPI": {"items": [memory]}}]), vec!["m=1024 400"]),
        (json!([{"configMap": {"name": "none", "optional": true}}]), vec![]),
        (
            json!([{"secret": {"name": "secret", "optional": true, "items": [{"key": "k", "path": "k"}]}}]),
            vec![],
        ),
        (
            json!([{"configMap": {"name": "map"}}, {"downwardAPI": {"items": [
                {"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}}]),
            vec!["a=p 440", "b=2 440"],
        ),
    ];
    for (sources, expected) in table {
        assert_eq!(collected(sources.clone()).unwrap(), expected, "{sources}");
    }
}

#[test]
fn what_is_missing_is_said_in_upstreams_words() {
    let key = json!([{"key": "k", "path": "k"}]);
    let table = [
        (json!([{"configMap": {"name": "none"}}]), "configmap \"none\" not found"),
        (json!([{"secret": {"name": "none"}}]), "secret \"none\" not found"),
        (
            json!([{"configMap": {"name": "map", "items": key}}]),
            "configmap references non-existent config key: k",
        ),
        (json!([{"secret": {"name": "secret", "items": key}}]), "references non-existent secret key: k"),
        (
            json!([{"secret": {"name": "none"}}, {"configMap": {"name": "none"}}]),
            "[secret \"none\" not found, configmap \"none\" not found]",
        ),
        (
            json!([{"downwardAPI": {"items": [{"path": "f", "fieldRef": {"fieldPath": "spec.x"}}]}}]),
            "unsupported fieldPath: spec.x",
        ),
    ];
    for (sources, expected) in table {
        assert_eq!(collected(sources.clone()), Err(Files::Impossible(expected.into())), "{sources}");
    }
    let unknown = json!([{"configMap": {"name": "none"}}, {"secret": {"name": "other"}}]);
    assert_eq!(collected(unknown), Err(Files::Looking), "nothing is said before all is known");
}
