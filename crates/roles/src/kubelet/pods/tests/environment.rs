//! Variables and sub-paths of a container, and the objects that they come from.

use bowline_api::{ConfigMap, Secret};
use bowline_machinery::Found;
use serde_json::{Value, json};

use super::*;

fn asking(env: Value, env_from: Value) -> Pod {
    pod(|pod| {
        let main = &mut pod.spec.as_mut().unwrap().containers[0];
        main.env = serde_json::from_value(env).unwrap();
        main.env_from = serde_json::from_value(env_from).unwrap();
    })
}

fn map(entries: Value) -> Found<Arc<ConfigMap>> {
    Found::Present(Arc::new(serde_json::from_value(json!({"data": entries})).unwrap()))
}

fn secret(key: &str, text: &str) -> Found<Arc<Secret>> {
    let value = k8s_openapi::ByteString(text.as_bytes().into());
    Found::Present(Arc::new(Secret { data: Some([(key.to_owned(), value)].into()), ..Default::default() }))
}

fn with(pod: Pod, objects: Objects) -> Observed {
    Observed { objects, ..seen(pod) }
}

fn variables(seen: &Observed) -> Vec<(String, String)> {
    match decide(seen) {
        Step::Do(Action::Start { spec, .. }) => spec.env.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn variables_come_from_config_maps_and_secrets() {
    let env = json!([
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "OVER", "value": "own $(P_A) $(HOSTNAME)"},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "x", "optional": true}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
    ]);
    let from = json!([{"prefix": "P_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "gone", "optional": true}},
        {"configMapRef": {"name": "over"}}]);
    let mut objects = Objects::default();
    objects.maps.insert("m".into(), map(json!({"A": "1", "bad=key": "2"})));
    objects.maps.insert("over".into(), map(json!({"OVER": "imported"})));
    objects.secrets.insert("s".into(), secret("k", "secret"));
    objects.secrets.insert("gone".into(), Found::Absent);
    let env = variables(&with(asking(env, from), objects));
    let get = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(get("P_A"), Some("1"));
    assert_eq!(get("KEY"), Some("secret"));
    assert_eq!(get("OVER"), Some("own 1 $(HOSTNAME)"), "what the runtime adds is not for variables to use");
    assert_eq!(get("NONE"), None);
    assert_eq!(get("CPU"), Some("0"));
    assert_eq!(get("HOSTNAME"), Some("p"));
    assert_eq!(env.len(), 6, "{env:?}");
}

/// In upstream's words; and the watch of the object wakes the pod.
#[test]
fn what_is_missing_keeps_a_container_waiting() {
    let secret_key = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]);
    let map_key = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]);
    let from = json!([{"configMapRef": {"name": "x"}}]);
    let (none, absent) = (json!([]), Found::Absent);
    let table = [
        (asking(secret_key.clone(), none.clone()), "secret \"x\" not found"),
        (asking(none.clone(), from), "configmap \"x\" not found"),
        (asking(map_key.clone(), none.clone()), "configmap \"x\" not found"),
    ];
    for (pod, expected) in table {
        let mut objects = Objects::default();
        objects.maps.insert("x".into(), absent.clone());
        objects.secrets.insert("x".into(), Found::Absent);
        refused_with(with(pod, objects), "CreateContainerConfigError", expected);
    }
    let mut objects = Objects::default();
    objects.maps.insert("x".into(), map(json!({})));
    objects.secrets.insert("x".into(), secret("other", ""));
    let text = "couldn't find key k in Secret default/x";
    refused_with(
        with(asking(secret_key.clone(), none.clone()), objects.clone()),
        "CreateContainerConfigError",
        text,
    );
    let text = "couldn't find key k in ConfigMap default/x";
    refused_with(with(asking(map_key, none.clone()), objects), "CreateContainerConfigError", text);
    let mut looking = with(asking(secret_key, none), Objects::default());
    settle_status(&mut looking);
    assert_eq!(decide(&looking), Step::Wait(Why::Looking));
}

/// What one container lacks does not keep the others from starting.
#[test]
fn the_other_containers_start() {
    let mut pod =
        asking(json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]), json!([]));
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    let plain = bowline_api::Container { name: "other".into(), env: None, ..containers[0].clone() };
    containers.push(plain);
    let mut objects = Objects::default();
    objects.secrets.insert("x".into(), Found::Absent);
    assert_eq!(short(&decide(&with(pod, objects))), "start other/0");
}

#[test]
fn sub_paths_stay_in_their_volume() {
    let mounting = |mount: Value| {
        pod(|pod| {
            let main = &mut pod.spec.as_mut().unwrap().containers[0];
            main.env = serde_json::from_value(json!([
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "UP", "value": "../x"},
            ]))
            .unwrap();
            let mut whole = json!({"name": "data", "mountPath": "/data"});
            whole.as_object_mut().unwrap().extend(mount.as_object().unwrap().clone());
            main.volume_mounts = Some(vec![serde_json::from_value(whole).unwrap()]);
        })
    };
    let table = [
        (json!({"subPath": "a/b"}), Ok(Some("a/b"))),
        (json!({"subPath": "./a"}), Ok(Some("a"))),
        (json!({"subPath": "."}), Ok(None)),
        (json!({"subPathExpr": "logs/$(POD)"}), Ok(Some("logs/p"))),
        (json!({"subPathExpr": "logs/$(NOPE)"}), Err("subPathExpr: missing value for \"NOPE\"")),
        (
            json!({"subPathExpr": "$(UP)"}),
            Err("subPath \"$(UP)\" of volume \"data\" must be relative and must not contain `..`"),
        ),
        (
            json!({"subPath": "/etc"}),
            Err("subPath \"/etc\" of volume \"data\" must be relative and must not contain `..`"),
        ),
    ];
    for (mount, expected) in table {
        let seen = seen(mounting(mount.clone()));
        match expected {
            Ok(path) => {
                let Step::Do(Action::Start { spec, .. }) = decide(&seen) else { panic!("{mount}") };
                assert_eq!(spec.mounts[0].sub_path.as_deref().and_then(|p| p.to_str()), path, "{mount}");
            }
            Err(text) => refused_with(seen, "CreateContainerConfigError", text),
        }
    }
}

#[test]
fn what_comes_from_a_secret_is_not_in_a_decision_that_is_logged() {
    let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let mut objects = Objects::default();
    objects.secrets.insert("s".into(), secret("k", "hunter2"));
    let seen = with(asking(env, json!([])), objects);
    let shown = format!("{:?} {seen:?}", decide(&seen));
    assert!(shown.contains("uid/main/0") && !shown.contains("hunter2"), "{shown}");
}

/// Each variable doubles the one before it: thirty of them would be a gigabyte.
#[test]
fn variables_cannot_grow_beyond_what_the_kernel_takes() {
    let mut env = vec![json!({"name": "V0", "value": "x".repeat(1024)})];
    env.extend((1..12).map(|n| json!({"name": format!("V{n}"), "value": format!("$(V{0})$(V{0})", n - 1)})));
    let text = "variable \"V7\" is longer than 131072 bytes, with which no program can be started";
    refused_with(seen(asking(json!(env), json!([]))), "CreateContainerConfigError", text);
    let mut long = asking(json!(env[..7]), json!([]));
    long.spec.as_mut().unwrap().containers[0].args = Some(vec!["$(V6)$(V6)$(V6)".into()]);
    let text = "an argument is longer than 131072 bytes, with which no program can be started";
    refused_with(seen(long), "CreateContainerConfigError", text);
    let many: Vec<_> = (0..120).map(|n| json!({"name": format!("W{n}"), "value": "$(V6)"})).collect();
    let all = json!([&env[..7], &many[..]].concat());
    let text = "the variables are longer than 6291456 bytes together";
    refused_with(seen(asking(all, json!([]))), "CreateContainerConfigError", text);
}

#[test]
fn bytes_that_are_no_text_are_refused_and_not_altered() {
    let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let from = json!([{"secretRef": {"name": "s"}}]);
    let table = [
        (
            asking(env.clone(), json!([])),
            &b"\xff\xfe"[..],
            "key k in secret \"s\" is not UTF-8 and cannot be a variable",
        ),
        (asking(json!([]), from), b"\xff\xfe", "key k in secret \"s\" is not UTF-8 and cannot be a variable"),
        (asking(env, json!([])), b"a\0b", "variable \"A\" contains a NUL byte"),
    ];
    for (pod, bytes, text) in table {
        let value = k8s_openapi::ByteString(bytes.into());
        let data = Some([("k".to_owned(), value)].into());
        let mut objects = Objects::default();
        objects.secrets.insert("s".into(), Found::Present(Arc::new(Secret { data, ..Default::default() })));
        refused_with(with(pod, objects), "CreateContainerConfigError", text);
    }
}
