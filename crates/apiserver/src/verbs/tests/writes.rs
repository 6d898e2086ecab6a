use http::Method;
use serde_json::{Value, json};

use crate::testing::*;

#[tokio::test]
async fn a_new_object_gets_what_only_the_server_gives() {
    let server = server().await;
    let mut sent = claim("a");
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["selfLink"] = "/x".into();
    sent["metadata"]["generation"] = 9.into();
    sent["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    sent["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    sent["status"] = json!({"phase": "Bound"});
    let answer = post(&server, CLAIMS, &sent).await;
    assert_eq!(answer.code, 201);
    let object = answer.ok();
    let meta = &object["metadata"];
    assert_eq!(meta["namespace"], "default");
    assert_eq!(meta["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert_eq!(meta["generation"], 9, "nobody counts the generations of claims");
    for absent in ["selfLink", "deletionTimestamp"] {
        assert!(meta[absent].is_null(), "{absent}");
    }
    let record = meta["managedFields"].as_array().expect("a record of our own");
    assert_eq!((record.len(), &record[0]["manager"]), (1, &json!("unknown")));
    assert_eq!(object["status"], json!({"phase": "Pending"}));
    assert_eq!(object["spec"]["volumeMode"], "Filesystem");
    assert_eq!(get(&server, &format!("{CLAIMS}/a")).await.ok(), object);
    let again = post(&server, CLAIMS, &sent).await;
    assert_eq!((again.code, &again.body["reason"]), (409, &json!("AlreadyExists")));
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_even_on_trial() {
    let server = server().await;
    let mut held = configmap("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&server, CONFIGMAPS, &held).await.ok();
    let mut prefixed = configmap("a");
    prefixed["metadata"]["generateName"] = "a-".into();
    let told = [
        (configmap("a"), r#"configmaps "a" already exists"#, Value::Null),
        (
            prefixed,
            r#"configmaps "a" already exists, the server was not able to generate a unique name for the object"#,
            json!(1),
        ),
    ];
    for begin in ["", "object is being deleted: "] {
        for (sent, text, retry) in &told {
            for path in [CONFIGMAPS.to_owned(), format!("{CONFIGMAPS}?dryRun=All")] {
                let refused = post(&server, &path, sent).await;
                assert_eq!((refused.code, &refused.body["reason"]), (409, &json!("AlreadyExists")));
                assert_eq!(refused.body["message"], format!("{begin}{text}"));
                assert_eq!(refused.body["details"]["retryAfterSeconds"], *retry);
            }
        }
        delete(&server, &format!("{CONFIGMAPS}/a"), None).await.ok();
    }
}

#[tokio::test]
async fn refused_creates() {
    let server = server().await;
    let with = |field: &str, value: Value| {
        let mut object = claim("a");
        object["metadata"][field] = value;
        object
    };
    let mut foreign = claim("a");
    foreign["apiVersion"] = "v2".into();
    let mut modeless = claim("a");
    modeless["spec"]["accessModes"] = json!([]);
    let mut mistyped = claim("a");
    mistyped["spec"]["accessModes"] = "x".into();
    let mut unmeasured = claim("a");
    unmeasured["spec"]["resources"]["requests"]["storage"] = "big".into();
    let nowhere = "/api/v1/namespaces/nowhere/persistentvolumeclaims";
    let cases = [
        (nowhere, claim("a"), 404, r#"namespaces "nowhere" not found"#),
        (
            CLAIMS,
            with("resourceVersion", "7".into()),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            CLAIMS,
            with("namespace", "other".into()),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            CLAIMS,
            with("name", Value::Null),
            422,
            r#"PersistentVolumeClaim "" is invalid: metadata.name: Required value: name or generateName is required"#,
        ),
        (
            CLAIMS,
            foreign,
            400,
            r#"PersistentVolumeClaim in version "v2" cannot be handled as a PersistentVolumeClaim: no kind "PersistentVolumeClaim" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            CLAIMS,
            modeless,
            422,
            r#"PersistentVolumeClaim "a" is invalid: spec.accessModes: Required value: at least 1 access mode is required"#,
        ),
        (
            CLAIMS,
            mistyped,
            400,
            r#"PersistentVolumeClaim in version "v1" cannot be handled as a PersistentVolumeClaim: json: cannot unmarshal string into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type []v1.PersistentVolumeAccessMode"#,
        ),
        (
            CLAIMS,
            unmeasured,
            400,
            r#"PersistentVolumeClaim in version "v1" cannot be handled as a PersistentVolumeClaim: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#,
        ),
        (
            CLASSES,
            json!({"metadata": {"name": "x"}, "provisioner": ""}),
            422,
            r#"StorageClass.storage.k8s.io "x" is invalid: provisioner: Required value"#,
        ),
        (
            CLAIMS,
            with("finalizers", json!(["bare"])),
            422,
            r#"PersistentVolumeClaim "a" is invalid: metadata.finalizers[0]: Invalid value: "bare": name is neither a standard finalizer name nor is it fully qualified"#,
        ),
    ];
    for (path, object, code, message) in cases {
        let answer = post(&server, path, &object).await;
        assert_eq!((answer.code, answer.body["message"].as_str().unwrap()), (code, message));
    }
    let long = "x".repeat(256 << 10);
    let answer = post(&server, CLAIMS, &with("annotations", json!({"a": long}))).await;
    assert_eq!(answer.body["details"]["causes"][0]["field"], "metadata.annotations");
    assert_eq!(post(&server, CLAIMS, &with("labels", json!({"-": "x"}))).await.code, 422);
    let huge = json!({"data": "x".repeat(3 << 20)});
    assert_eq!(post(&server, CONFIGMAPS, &huge).await.code, 413);
}

#[tokio::test]
async fn names_are_made_up_and_dry_runs_leave_nothing() {
    let server = server().await;
    let object = json!({"metadata": {"generateName": "web-"}});
    let first = post(&server, CONFIGMAPS, &object).await.ok();
    let second = post(&server, CONFIGMAPS, &object).await.ok();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name(&first).starts_with("web-") && name(&first).len() == 9);
    assert_ne!(name(&first), name(&second));

    let path = format!("{CONFIGMAPS}?dryRun=All");
    let dry = post(&server, &path, &configmap("dry")).await;
    assert_eq!((dry.code, &dry.body["metadata"]["name"]), (201, &json!("dry")));
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/dry")).await.code, 404);
}

#[tokio::test]
async fn unknown_fields_warn_or_fail() {
    let server = server().await;
    let mut object = claim("a");
    object["spec"]["foo"] = 1.into();
    let strict = post(&server, &format!("{CLAIMS}?fieldValidation=Strict"), &object).await;
    assert_eq!(strict.code, 400);
    assert_eq!(
        strict.body["message"],
        r#"PersistentVolumeClaim in version "v1" cannot be handled as a PersistentVolumeClaim: strict decoding error: unknown field "spec.foo""#
    );
    let ignored = post(&server, &format!("{CLAIMS}?fieldValidation=Ignore&dryRun=All"), &object).await;
    assert!(ignored.code == 201 && ignored.warnings.is_empty());
    let warned = post(&server, CLAIMS, &object).await;
    assert_eq!(warned.warnings, [r#"299 - "unknown field \"spec.foo\"""#]);
    assert!(warned.ok()["spec"]["foo"].is_null());
    let patch =
        patch(&server, &format!("{CLAIMS}/a?fieldValidation=Strict"), "merge", &json!({"bar": 1})).await;
    assert_eq!(patch.code, 422);
    assert!(patch.body["message"].as_str().unwrap().contains(r#"unknown field "bar""#));
}

#[tokio::test]
async fn updates_compare_versions() {
    let server = server().await;
    let path = format!("{CLAIMS}/a");
    let first = post(&server, CLAIMS, &claim("a")).await.ok();
    let mut changed = first.clone();
    changed["metadata"]["labels"] = json!({"x": "1"});
    let second = put(&server, &path, &changed).await.ok();
    assert!(version(&second) > version(&first));

    let stale = put(&server, &path, &changed).await;
    assert_eq!(stale.code, 409);
    assert_eq!(
        stale.body["message"],
        r#"Operation cannot be fulfilled on persistentvolumeclaims "a": the object has been modified; please apply your changes to the latest version and try again"#
    );
    let same = put(&server, &path, &second).await.ok();
    assert_eq!(same, second, "an update that changes nothing writes nothing");

    let mut unconditional = second.clone();
    unconditional["metadata"]["resourceVersion"] = Value::Null;
    unconditional["metadata"]["labels"] = json!({"x": "2"});
    unconditional["status"] = json!({"phase": "Lost"});
    let third = put(&server, &path, &unconditional).await.ok();
    assert_eq!(third["status"]["phase"], "Pending", "the status is not part of an update");

    let mut foreign = third.clone();
    foreign["metadata"]["uid"] = "other".into();
    assert_eq!(put(&server, &path, &foreign).await.code, 409);
    let mut renamed = third.clone();
    renamed["metadata"]["name"] = "b".into();
    assert_eq!(put(&server, &path, &renamed).await.code, 400);
    assert_eq!(put(&server, &format!("{CLAIMS}/b"), &renamed).await.code, 404);
    let mut immutable = third;
    immutable["spec"]["volumeMode"] = "Block".into();
    assert_eq!(
        put(&server, &path, &immutable).await.body["message"],
        r#"PersistentVolumeClaim "a" is invalid: spec: Forbidden: spec is immutable"#
    );
}

#[tokio::test]
async fn a_status_update_changes_the_status_alone() {
    let server = server().await;
    let path = format!("{CLAIMS}/a/status");
    let mut object = post(&server, CLAIMS, &claim("a")).await.ok();
    object["status"]["phase"] = "Bound".into();
    object["spec"]["volumeName"] = "pv".into();
    object["metadata"]["annotations"] = json!({"note": "1"});
    let stored = put(&server, &path, &object).await.ok();
    assert_eq!(stored["status"]["phase"], "Bound");
    assert!(stored["spec"]["volumeName"].is_null());
    assert_eq!(stored["metadata"]["annotations"]["note"], "1");
    assert_eq!(get(&server, &path).await.ok(), stored);
    let change = json!({"status": {"phase": "Lost"}, "spec": {"volumeName": "pv"}});
    let patched = patch(&server, &path, "merge", &change).await.ok();
    assert_eq!((&patched["status"]["phase"], &patched["spec"]["volumeName"]), (&json!("Lost"), &Value::Null));
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a/status")).await.code, 404, "no such subresource");
}

#[tokio::test]
async fn generation_counts_changes_of_content() {
    let server = server().await;
    let path = format!("{DRIVERS}/d");
    let first = post(&server, DRIVERS, &json!({"metadata": {"name": "d"}, "spec": {}})).await.ok();
    assert_eq!(first["metadata"]["generation"], 1);
    let labelled =
        patch(&server, &path, "merge", &json!({"metadata": {"labels": {"a": "b"}, "generation": 7}}))
            .await
            .ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = patch(&server, &path, "merge", &json!({"spec": {"podInfoOnMount": true}})).await.ok();
    assert_eq!(changed["metadata"]["generation"], 2);

    let mut blind = changed.clone();
    blind["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(
        put(&server, &path, &blind).await.body["message"],
        r#"csidrivers.storage.k8s.io "d" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#
    );
    let created =
        put(&server, &format!("{DRIVERS}/e"), &json!({"metadata": {"name": "e"}, "spec": {}})).await;
    assert_eq!(created.code, 201, "this kind is created by an update");
}

#[tokio::test]
async fn patches() {
    let server = server().await;
    let path = format!("{CLAIMS}/a");
    let first = post(&server, CLAIMS, &claim("a")).await.ok();
    let merge = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    patch(&server, &path, "merge", &merge).await.ok();
    let strategic = json!({"metadata": {"labels": {"a": null}, "finalizers": ["example.com/x"]}});
    patch(&server, &path, "strategic-merge", &strategic).await.ok();
    let operations = json!([
        {"op": "replace", "path": "/metadata/annotations", "value": {"n": "1"}},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/y"},
    ]);
    let object = patch(&server, &path, "json", &operations).await.ok();
    assert_eq!(object["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(object["metadata"]["annotations"], json!({"n": "1"}));
    assert_eq!(object["metadata"]["finalizers"], json!(["example.com/x", "example.com/y"]));

    let stale =
        json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"], "labels": null}});
    assert_eq!(patch(&server, &path, "merge", &stale).await.code, 409);
    let uid = patch(&server, &path, "merge", &json!({"metadata": {"uid": "x"}})).await;
    assert_eq!((uid.code, &uid.body["details"]["causes"][0]["field"]), (422, &json!("metadata.uid")));
    let failing =
        patch(&server, &path, "json", &json!([{"op": "test", "path": "/kind", "value": "x"}])).await;
    assert_eq!(failing.code, 422);
    assert_eq!(failing.body["message"], "the server rejected our request due to an error in our request");
    let same = patch(&server, &path, "merge", &json!({})).await.ok();
    assert_eq!(same, object);
    assert_eq!(patch(&server, &format!("{CLAIMS}/none"), "merge", &json!({})).await.code, 404);
    for odd in ["application/apply-patch+cbor", "application/json", "text/plain"] {
        let odd = send(&server, Method::PATCH, &path, "*/*", Some((odd, b"{}".to_vec()))).await;
        assert_eq!(odd.code, 415);
    }
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let server = server().await;
    post(&server, PODS, &pod("p")).await.ok();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "annotations": {"k": "v"}}, "target": {"kind": "Node", "name": "n1"}});
    let answer = post(&server, &format!("{PODS}/p/binding"), &binding).await;
    assert_eq!((answer.code, &answer.body["status"]), (201, &json!("Success")));
    let object = get(&server, &format!("{PODS}/p")).await.ok();
    assert_eq!(object["spec"]["nodeName"], "n1");
    assert_eq!(object["metadata"]["annotations"]["k"], "v");
    assert_eq!(object["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(object["status"]["conditions"][0]["status"], "True");
    let again = post(&server, "/api/v1/namespaces/default/bindings", &binding).await;
    assert_eq!(
        (again.code, again.body["message"].as_str().unwrap()),
        (409, r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1""#)
    );
}

#[tokio::test]
async fn concurrent_patches_all_land() {
    let server = server().await;
    post(&server, CONFIGMAPS, &configmap("c")).await.ok();
    let path = format!("{CONFIGMAPS}/c");
    let all = (0..50).map(|n| {
        let (server, path) = (&server, &path);
        async move { patch(server, path, "merge", &json!({"data": {format!("k{n}"): "v"}})).await.ok() }
    });
    futures::future::join_all(all).await;
    assert_eq!(get(&server, &path).await.ok()["data"].as_object().unwrap().len(), 51);
}

/// As upstream's server answered.
#[tokio::test]
async fn what_is_there_is_told_also_when_nothing_is_to_be_written() {
    let server = server().await;
    let mut held = configmap("a");
    held["metadata"]["finalizers"] = json!(["x.io/held"]);
    post(&server, CONFIGMAPS, &held).await.ok();
    let dry = format!("{CONFIGMAPS}?dryRun=All");
    assert_eq!(post(&server, &dry, &held).await.body["message"], "configmaps \"a\" already exists");
    delete(&server, &format!("{CONFIGMAPS}/a"), None).await.ok();
    for path in [CONFIGMAPS, dry.as_str()] {
        let refused = post(&server, path, &held).await;
        let leaving = "object is being deleted: configmaps \"a\" already exists";
        assert_eq!((refused.code, &refused.body["message"]), (409, &json!(leaving)));
    }
    let mut other = configmap("b");
    other["metadata"]["resourceVersion"] = "no number".into();
    assert_eq!(post(&server, CONFIGMAPS, &other).await.code, 201);
}

/// What a body has too much is told with every refusal, what a kind warns of only once its rules are kept.
#[tokio::test]
async fn who_is_refused_is_warned_too() {
    let server = server().await;
    let mut object = configmap("a");
    object["surprise"] = 1.into();
    post(&server, CONFIGMAPS, &object).await.ok();
    let mut nameless = object.clone();
    nameless["metadata"]["name"] = "Not_One".into();
    let unknown = "299 - \"unknown field \\\"surprise\\\"\"";
    for (refused, code) in [
        (post(&server, CONFIGMAPS, &object).await, 409),
        (post(&server, CONFIGMAPS, &nameless).await, 422),
        (put(&server, &format!("{CONFIGMAPS}/b"), &object).await, 400),
    ] {
        assert_eq!((refused.code, refused.warnings.as_slice()), (code, [unknown.to_owned()].as_slice()));
    }
}
