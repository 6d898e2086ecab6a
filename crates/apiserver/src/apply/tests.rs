use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn writer(name: &str, operation: Operation) -> Writer<'static> {
    let manager =
        Manager { name: name.into(), operation, api_version: "v1".into(), subresource: String::new() };
    Writer { manager, ignored: &[], now: NOW }
}

fn applier(name: &str) -> Writer<'static> {
    writer(name, Operation::Apply)
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn owner<'a>(object: &'a Value, name: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().expect("managed");
    entries.iter().find(|entry| entry["manager"] == name).map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

#[test]
fn applying_owns_what_it_names() {
    let config = pod(json!({"containers": [{"name": "c", "image": "a", "ports": [{"containerPort": 80}]}]}));
    let new = apply(&Value::Null, &config, &applier("me"), false).expect("no conflict");
    assert_eq!(
        *owner(&new, "me"),
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:image": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
        }}}})
    );
}

#[test]
fn what_is_no_longer_named_goes() {
    let both = pod(
        json!({"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}], "hostname": "h"}),
    );
    let live = apply(&Value::Null, &both, &applier("me"), false).expect("no conflict");
    let one = pod(json!({"containers": [{"name": "b", "image": "y"}]}));
    let new = apply(&live, &one, &applier("me"), false).expect("no conflict");
    assert_eq!(new["spec"], json!({"containers": [{"name": "b", "image": "y"}]}));
}

#[test]
fn what_another_has_set_stays() {
    let live = apply(&Value::Null, &pod(json!({"hostname": "h", "subdomain": "s"})), &applier("me"), false);
    let live = live.expect("no conflict");
    let live = apply(&live, &pod(json!({"hostname": "h"})), &applier("you"), false).expect("the same value");
    let new = apply(&live, &pod(json!({})), &applier("me"), false).expect("no conflict");
    assert_eq!(new["spec"], json!({"hostname": "h"}), "shared with another applier");
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    let live = apply(&Value::Null, &pod(json!({"hostname": "h"})), &applier("me"), false).expect("first");
    let theirs = pod(json!({"hostname": "other"}));
    let conflicts = apply(&live, &theirs, &applier("you"), false).expect_err("a conflict");
    assert_eq!(conflicts.len(), 1);
    assert_eq!((conflicts[0].manager.name.as_str(), conflicts[0].field.as_str()), ("me", ".spec.hostname"));
    let new = apply(&live, &theirs, &applier("you"), true).expect("forced");
    assert_eq!(new["spec"]["hostname"], "other");
    assert!(owner(&new, "me").is_null(), "it lost its only field");
}

#[test]
fn atomic_lists_change_as_a_whole() {
    let with = |args: Value| pod(json!({"containers": [{"name": "c", "args": args}]}));
    let live = apply(&Value::Null, &with(json!(["a"])), &applier("me"), false).expect("first");
    let conflicts = apply(&live, &with(json!(["a", "b"])), &applier("you"), false).expect_err("a conflict");
    assert_eq!(conflicts[0].field, ".spec.containers[name=\"c\"].args");
}

#[test]
fn sets_merge_by_value() {
    let with = |finalizers: Value| {
        let mut object = pod(json!({}));
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let live = apply(&Value::Null, &with(json!(["a"])), &applier("me"), false).expect("first");
    let new = apply(&live, &with(json!(["b"])), &applier("you"), false).expect("no conflict");
    let both: std::collections::BTreeSet<&str> =
        new["metadata"]["finalizers"].as_array().expect("list").iter().filter_map(Value::as_str).collect();
    assert_eq!(both, ["a", "b"].into());
}

#[test]
fn updates_are_recorded_too() {
    let created = track(
        &Value::Null,
        pod(json!({"hostname": "h", "nodeName": "n"})),
        &writer("kubectl", Operation::Update),
    );
    assert_eq!(*owner(&created, "kubectl"), json!({"f:spec": {".": {}, "f:hostname": {}, "f:nodeName": {}}}));
    let mut changed = created.clone();
    changed["spec"]["hostname"] = "other".into();
    let changed = track(&created, changed, &writer("agent", Operation::Update));
    assert_eq!(*owner(&changed, "kubectl"), json!({"f:spec": {".": {}, "f:nodeName": {}}}));
    assert_eq!(*owner(&changed, "agent"), json!({"f:spec": {"f:hostname": {}}}));
    let conflicts =
        apply(&changed, &pod(json!({"hostname": "mine"})), &applier("me"), false).expect_err("conflict");
    assert_eq!(conflicts[0].manager.name, "agent");
    let mut unset = changed.clone();
    unset["spec"] = json!({"nodeName": "n"});
    let unset = track(&changed, unset, &writer("agent", Operation::Update));
    assert!(owner(&unset, "agent").is_null());
}

#[test]
fn a_status_write_does_not_own_the_spec() {
    let mut writer = writer("kubelet", Operation::Update);
    writer.manager.subresource = "status".into();
    writer.ignored = &[&["spec"]];
    let old = pod(json!({"hostname": "h"}));
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running"});
    let new = track(&old, new, &writer);
    assert_eq!(*owner(&new, "kubelet"), json!({"f:status": {".": {}, "f:phase": {}}}));
    assert_eq!(new["metadata"]["managedFields"][0]["subresource"], "status");
}

#[test]
fn too_many_updaters_become_one() {
    let mut object = pod(json!({}));
    let old = track(&Value::Null, object.clone(), &writer("first", Operation::Update));
    object = old;
    for number in 0..20 {
        let mut next = object.clone();
        next["metadata"]["labels"][format!("l{number}")] = "x".into();
        object = track(&object, next, &writer(&format!("m{number}"), Operation::Update));
    }
    let entries = object["metadata"]["managedFields"].as_array().expect("managed").len();
    assert!(entries <= 10, "{entries}");
    assert!(!owner(&object, "ancient-changes").is_null());
}

#[test]
fn new_elements_keep_both_orders() {
    let with = |names: &[&str]| {
        let containers: Value = names.iter().map(|name| json!({"name": name})).collect();
        pod(json!({"containers": containers}))
    };
    let names = |object: &Value| -> Vec<String> {
        let list = object["spec"]["containers"].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
    };
    let live = track(&Value::Null, with(&["a", "b", "c"]), &writer("other", Operation::Update));
    let new = apply(&live, &with(&["x", "b", "y"]), &applier("me"), false).expect("no conflict");
    assert_eq!(names(&new), ["a", "x", "b", "c", "y"]);
}
