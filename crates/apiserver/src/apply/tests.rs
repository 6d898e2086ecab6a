use super::*;
use serde_json::json;

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:00:01Z";

fn writer(name: &str, operation: Operation) -> Writer<'static> {
    let manager =
        Manager { name: name.into(), operation, api_version: "v1".into(), subresource: String::new() };
    Writer { manager, ignored: &[&["status"]], now: NOW }
}

fn applier(name: &str) -> Writer<'static> {
    writer(name, Operation::Apply)
}

fn updater(name: &str) -> Writer<'static> {
    writer(name, Operation::Update)
}

fn kind() -> Kind<'static> {
    Kind::root("v1", "Pod", None)
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn with_record(mut object: Value, record: Option<Value>) -> Value {
    if let Some(record) = record {
        object["metadata"]["managedFields"] = record;
    }
    object
}

/// As the verbs do it: the record goes beside and comes back.
fn applied(live: &Value, config: &Value, writer: &Writer<'_>, force: bool) -> Result<Value, Conflicts> {
    let mut applied = apply(live, config, kind(), writer, force)?;
    if let Some(metadata) = applied.object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Ok(with_record(applied.object, applied.record))
}

fn written(old: &Value, mut new: Value, writer: &Writer<'_>) -> Value {
    let sent = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    let record = track(old, &new, sent, kind(), writer);
    with_record(new, record)
}

fn entries(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
}

fn owner(object: &Value, name: &str) -> Value {
    let found = entries(object).into_iter().find(|entry| entry["manager"] == name);
    found.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn message(conflicts: Conflicts) -> String {
    crate::status::Status::from(conflicts).message
}

#[test]
fn applying_owns_what_it_names() {
    let config = pod(json!({"containers": [{"name": "c", "image": "a", "ports": [{"containerPort": 80}]}]}));
    let new = applied(&Value::Null, &config, &applier("me"), false).expect("no conflict");
    assert_eq!(
        owner(&new, "me"),
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
    let live = applied(&Value::Null, &both, &applier("me"), false).expect("no conflict");
    let one = pod(json!({"containers": [{"name": "b", "image": "y"}]}));
    let new = applied(&live, &one, &applier("me"), false).expect("no conflict");
    assert_eq!(new["spec"], json!({"containers": [{"name": "b", "image": "y"}]}));
}

#[test]
fn what_another_has_set_stays() {
    let live = applied(&Value::Null, &pod(json!({"hostname": "h", "subdomain": "s"})), &applier("me"), false);
    let live = live.expect("no conflict");
    let live =
        applied(&live, &pod(json!({"hostname": "h"})), &applier("you"), false).expect("the same value");
    let new = applied(&live, &pod(json!({})), &applier("me"), false).expect("no conflict");
    assert_eq!(new["spec"], json!({"hostname": "h"}), "shared with another applier");
}

/// An element of a list is its applier's to remove, with all that others have put into it since.
#[test]
fn an_element_goes_with_what_is_in_it() {
    let config = pod(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    let live = applied(&Value::Null, &config, &applier("me"), false).expect("first");
    let mut defaulted = live.clone();
    defaulted["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    let new = applied(&defaulted, &pod(json!({"containers": [{"name": "b"}]})), &applier("me"), false);
    assert_eq!(new.expect("no conflict")["spec"], json!({"containers": [{"name": "b"}]}));

    let live = written(&live, defaulted, &updater("other"));
    let new = applied(&live, &pod(json!({"containers": [{"name": "b"}]})), &applier("me"), false);
    assert_eq!(new.expect("no conflict")["spec"], json!({"containers": [{"name": "b"}]}));
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    let live = applied(&Value::Null, &pod(json!({"hostname": "h"})), &applier("me"), false).expect("first");
    let theirs = pod(json!({"hostname": "other"}));
    let conflicts = applied(&live, &theirs, &applier("you"), false).expect_err("a conflict");
    assert_eq!(message(conflicts), "Apply failed with 1 conflict: conflict with \"me\": .spec.hostname");
    let new = applied(&live, &theirs, &applier("you"), true).expect("forced");
    assert_eq!(new["spec"]["hostname"], "other");
    assert!(owner(&new, "me").is_null(), "it lost its only field");
}

#[test]
fn conflicts_are_told_by_manager() {
    let live = written(&Value::Null, pod(json!({"hostname": "h", "subdomain": "s"})), &updater("b"));
    let mut changed = live.clone();
    changed["spec"]["nodeName"] = "n".into();
    let live = written(&live, changed, &updater("a"));
    let config = pod(json!({"hostname": "1", "subdomain": "2", "nodeName": "3"}));
    let conflicts = applied(&live, &config, &applier("me"), false).expect_err("conflicts");
    let want = "Apply failed with 3 conflicts: conflicts with \"a\" using v1:\n- .spec.nodeName\nconflicts with \"b\" using v1:\n- .spec.hostname\n- .spec.subdomain";
    assert_eq!(message(conflicts), want);
}

#[test]
fn atomic_lists_change_as_a_whole() {
    let with = |args: Value| pod(json!({"containers": [{"name": "c", "args": args}]}));
    let live = applied(&Value::Null, &with(json!(["a"])), &applier("me"), false).expect("first");
    let conflicts = applied(&live, &with(json!(["a", "b"])), &applier("you"), false).expect_err("a conflict");
    assert!(message(conflicts).ends_with(": .spec.containers[name=\"c\"].args"));
}

#[test]
fn sets_merge_by_value() {
    let with = |finalizers: Value| {
        let mut object = pod(json!({}));
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let live = applied(&Value::Null, &with(json!(["a"])), &applier("me"), false).expect("first");
    let new = applied(&live, &with(json!(["b"])), &applier("you"), false).expect("no conflict");
    assert_eq!(new["metadata"]["finalizers"], json!(["a", "b"]));
}

/// What upstream's Go structs hold anyway is not set by whoever creates the object.
#[test]
fn creators_own_what_they_add() {
    let mut new = pod(json!({"containers": [{"name": "c", "image": "i"}], "hostname": "h"}));
    new["metadata"]["labels"] = json!({"x": "y"});
    new["status"] = json!({"phase": "Pending"});
    let created = written(&Value::Null, new, &updater("kubectl"));
    let want = json!({
        "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
        "f:spec": {
            "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}},
            "f:hostname": {},
        },
    });
    assert_eq!(owner(&created, "kubectl"), want);
}

#[test]
fn updates_are_recorded_too() {
    let created = written(&Value::Null, pod(json!({"hostname": "h", "nodeName": "n"})), &updater("kubectl"));
    assert_eq!(owner(&created, "kubectl"), json!({"f:spec": {"f:hostname": {}, "f:nodeName": {}}}));
    let mut changed = created.clone();
    changed["spec"]["hostname"] = "other".into();
    let changed = written(&created, changed, &updater("agent"));
    assert_eq!(owner(&changed, "kubectl"), json!({"f:spec": {"f:nodeName": {}}}));
    assert_eq!(owner(&changed, "agent"), json!({"f:spec": {"f:hostname": {}}}));
    let conflicts =
        applied(&changed, &pod(json!({"hostname": "mine"})), &applier("me"), false).expect_err("conflict");
    assert!(message(conflicts).contains("\"agent\" using v1"));
    let mut unset = changed.clone();
    unset["spec"] = json!({"nodeName": "n"});
    let unset = written(&changed, unset, &updater("agent"));
    assert!(owner(&unset, "agent").is_null());
}

#[test]
fn times_move_with_what_is_set() {
    let time = |object: &Value, name: &str| {
        let found = entries(object).into_iter().find(|entry| entry["manager"] == name);
        found.expect("an entry")["time"].clone()
    };
    let later = |name: &str, operation| Writer { now: LATER, ..writer(name, operation) };
    let live = written(&Value::Null, pod(json!({"hostname": "h", "subdomain": "s"})), &updater("a"));
    let mut changed = live.clone();
    changed["spec"]["hostname"] = "other".into();
    assert_eq!(time(&written(&live, changed, &later("a", Operation::Update)), "a"), LATER, "another value");
    let mut fewer = live.clone();
    fewer["spec"] = json!({"subdomain": "s"});
    assert_eq!(time(&written(&live, fewer, &later("a", Operation::Update)), "a"), NOW, "only removed");
    assert_eq!(written(&live, live.clone(), &later("b", Operation::Update)), live, "nothing");

    let config = pod(json!({"hostname": "h"}));
    let live = applied(&live, &config, &applier("me"), true).expect("shared");
    assert_eq!(time(&live, "me"), Value::Null, "it changed nothing");
    assert_eq!(applied(&live, &config, &later("me", Operation::Apply), false).expect("again"), live);
}

#[test]
fn a_status_write_does_not_own_the_spec() {
    let mut writer = updater("kubelet");
    writer.manager.subresource = "status".into();
    writer.ignored = &[&["spec"]];
    let old = written(&Value::Null, pod(json!({"hostname": "h"})), &updater("me"));
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    new["spec"]["hostname"] = "other".into();
    new["metadata"]["managedFields"] = json!([]);
    let new = written(&old, new, &writer);
    let condition = json!({
        ".": {}, "f:type": {}, "f:status": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {},
    });
    let conditions = json!({".": {}, "k:{\"type\":\"Ready\"}": condition});
    assert_eq!(owner(&new, "kubelet"), json!({"f:status": {"f:phase": {}, "f:conditions": conditions}}));
    assert_eq!(entries(&new)[0]["subresource"], "status");
    assert_eq!(owner(&new, "me"), owner(&old, "me"), "a subresource can neither take a field nor the record");
}

#[test]
fn clients_may_edit_the_record() {
    let live = written(&Value::Null, pod(json!({"hostname": "h"})), &updater("kubectl-client-side-apply"));
    let edited = |record: Value| {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = record;
        written(&live, new, &updater("kubectl"))
    };
    // As kubectl does when it moves to server-side apply.
    let fields = json!({"f:spec": {"f:hostname": {}}});
    let mine = json!({
        "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    });
    assert_eq!(entries(&edited(json!([mine]))), std::slice::from_ref(&mine));
    for reset in [json!([]), json!([{}])] {
        let none = edited(reset);
        assert_eq!(entries(&none), Vec::<Value>::new());
        let mut changed = none.clone();
        changed["spec"]["hostname"] = "other".into();
        assert_eq!(entries(&written(&none, changed, &updater("x"))), Vec::<Value>::new(), "it stays off");
    }
    for broken in [
        json!([{"manager": "x"}]),
        json!([{"operation": "Take", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
        json!([{"operation": "Update", "fieldsType": "FieldsV1"}]),
        json!([{"operation": "Update", "apiVersion": "v1"}]),
        json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
    ] {
        assert_eq!(edited(broken.clone()), live, "{broken}");
    }
}

#[test]
fn what_was_there_before_the_first_apply_is_somebodys() {
    let live = pod(json!({"hostname": "h", "subdomain": "s"}));
    let conflicts =
        applied(&live, &pod(json!({"hostname": "x"})), &applier("me"), false).expect_err("conflict");
    assert!(message(conflicts).contains("\"before-first-apply\" using v1"));
    let new = applied(&live, &pod(json!({"hostname": "x"})), &applier("me"), true).expect("forced");
    assert_eq!(owner(&new, "before-first-apply"), json!({"f:spec": {"f:subdomain": {}}}));
}

#[test]
fn too_many_updaters_become_one() {
    let mut object = written(&Value::Null, pod(json!({"hostname": "h"})), &applier("first"));
    for number in 0..20 {
        let mut next = object.clone();
        next["metadata"]["labels"][format!("l{number:02}")] = "x".into();
        object = written(&object, next, &updater(&format!("m{number:02}")));
        assert_eq!(entries(&object).len(), 1 + (number + 1).min(10), "{number}");
    }
    let ancient = owner(&object, "ancient-changes");
    assert_eq!(
        ancient["f:metadata"]["f:labels"].as_object().expect("labels").len(),
        12,
        "eleven and the map"
    );
}

#[test]
fn client_side_apply_is_taken_over() {
    let config = pod(json!({"hostname": "h", "subdomain": "s"}));
    let mut live = config.clone();
    live["metadata"]["annotations"] = json!({(bowline_api::keys::LAST_APPLIED): config.to_string()});
    let live = written(&Value::Null, live, &updater("kubectl-client-side-apply"));
    let wanted = pod(json!({"hostname": "new", "subdomain": "s"}));
    let refused = applied(&live, &wanted, &applier("me"), false).expect_err("only kubectl is trusted");
    assert!(message(refused).contains("kubectl-client-side-apply"));

    let new = applied(&live, &wanted, &applier("kubectl"), false).expect("its own field");
    assert_eq!(new["spec"]["hostname"], "new");
    let annotation = &new["metadata"]["annotations"][bowline_api::keys::LAST_APPLIED];
    assert_eq!(*annotation, json!(format!("{wanted}\n")), "kept up to date");

    let mut changed = live.clone();
    changed["spec"]["hostname"] = "by hand".into();
    let changed = written(&live, changed, &updater("edit"));
    let refused = applied(&changed, &wanted, &applier("kubectl"), false).expect_err("somebody else's by now");
    assert_eq!(
        message(refused),
        "Apply failed with 1 conflict: conflict with \"edit\" using v1: .spec.hostname"
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let cases = [
        (json!({"spec": {"nope": 1}}), ".spec.nope: field not declared in schema"),
        (
            json!({"metadata": {"labels": {"x": true}}}),
            ".metadata.labels.x: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (json!({"spec": {"priority": "x"}}), ".spec.priority: expected numeric (int or float), got string"),
        (json!({"spec": {"hostPID": "x"}}), ".spec.hostPID: expected boolean, got &{x}"),
        (json!({"spec": []}), ".spec: expected map, got &{[]}"),
        (json!({"spec": {"containers": {"a": 1}}}), ".spec.containers: expected list, got &{map[a:1]}"),
        (
            json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"spec": {"containers": [1]}}),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            json!({"spec": {"kind": "x", "nope": {}}}),
            "errors:\n  .spec.kind: field not declared in schema\n  .spec.nope: field not declared in schema",
        ),
    ];
    for (config, want) in cases {
        let found = check(&config, kind()).expect_err("refused");
        assert_eq!(found.to_string(), want);
    }
    let fine =
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "args": ["x"]}]}});
    assert_eq!(check(&fine, kind()), Ok(()));
}

/// Kinds that clients define say themselves how they divide.
#[test]
fn custom_kinds_divide_by_their_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "hosts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "limits": {"type": "object", "additionalProperties": {"type": "string"}},
        "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
    }}}});
    let kind = Kind::root("example.com/v1", "Thing", Some(&schema));
    let config = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "labels": {"l": "1"}},
        "spec": {"hosts": [{"name": "h", "port": 1}], "tags": ["x"], "plain": ["p"], "any": {"a": {"b": 1}},
            "limits": {"cpu": "1"}, "one": {"a": "1"}},
    });
    assert_eq!(check(&config, kind), Ok(()));
    let mut writer = applier("me");
    writer.manager.api_version = "example.com/v1".into();
    let new = apply(&Value::Null, &config, kind, &writer, false).expect("no conflict");
    let want = json!({
        "f:metadata": {"f:labels": {"f:l": {}}},
        "f:spec": {
            "f:any": {"f:a": {".": {}, "f:b": {}}},
            "f:hosts": {"k:{\"name\":\"h\"}": {".": {}, "f:name": {}, "f:port": {}}},
            "f:limits": {"f:cpu": {}}, "f:one": {}, "f:plain": {}, "f:tags": {"v:\"x\"": {}},
        },
    });
    let record = new.record.expect("a record");
    assert_eq!(record[0]["fieldsV1"], want);
    let unknown = json!({"spec": {"nope": 1}});
    assert_eq!(
        check(&unknown, kind).expect_err("refused").to_string(),
        ".spec.nope: field not declared in schema"
    );
}
