use serde_json::{Value, json};

use crate::testing::*;

#[tokio::test]
async fn answers_and_preconditions() {
    let server = server().await;
    let object = post(&server, CONFIGMAPS, &configmap("a")).await.ok();
    let path = format!("{CONFIGMAPS}/a");
    let wrong = delete(&server, &path, Some(json!({"preconditions": {"uid": "other"}}))).await;
    assert_eq!(wrong.code, 409);
    assert!(wrong.body["message"].as_str().unwrap().starts_with(
        r#"Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in record ("#
    ));
    let stale = json!({"preconditions": {"resourceVersion": "1"}});
    assert_eq!(delete(&server, &path, Some(stale)).await.code, 409);
    assert_eq!(delete(&server, &format!("{path}?dryRun=All"), None).await.code, 200);
    let uid = &object["metadata"]["uid"];
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "preconditions": {"uid": uid}});
    let gone = delete(&server, &path, Some(options)).await.ok();
    assert_eq!(gone["kind"], "Status");
    assert_eq!(gone["details"], json!({"name": "a", "kind": "configmaps", "uid": uid}));
    assert_eq!(delete(&server, &path, None).await.body["message"], r#"configmaps "a" not found"#);

    post(&server, CLAIMS, &claim("a")).await.ok();
    assert_eq!(delete(&server, &format!("{CLAIMS}/a"), None).await.ok()["kind"], "PersistentVolumeClaim");
}

#[tokio::test]
async fn a_finalizer_holds_an_object() {
    let server = server().await;
    let held =
        json!({"metadata": {"name": "d", "finalizers": ["example.com/x", "example.com/y"]}, "spec": {}});
    let path = format!("{DRIVERS}/d");
    post(&server, DRIVERS, &held).await.ok();
    let marked = delete(&server, &path, None).await.ok();
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(delete(&server, &path, None).await.ok(), marked, "a second delete writes nothing");

    let more = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/z"}]);
    let refused = patch(&server, &path, "json", &more).await;
    assert!(refused.body["message"].as_str().unwrap().contains(
        r#"no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/z"}"#
    ));
    let mut watching =
        watch(&server, &format!("{DRIVERS}?watch=1&resourceVersion={}", version(&marked)), "*/*").await;
    let one = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let fewer = patch(&server, &path, "json", &one).await.ok();
    assert_eq!(fewer["metadata"]["finalizers"], json!(["example.com/y"]));
    assert_eq!(patch(&server, &path, "json", &one).await.code, 200);
    assert_eq!(get(&server, &path).await.code, 404);
    assert_eq!(watching.brief().await.0, "MODIFIED");
    let last = watching.next().await.unwrap();
    assert_eq!(last["type"], "DELETED");
    assert!(version(&last["object"]) > version(&fewer));
}

#[tokio::test]
async fn a_pod_goes_gracefully() {
    let server = server().await;
    let mut object = pod("p");
    object["spec"]["nodeName"] = "n".into();
    post(&server, PODS, &object).await.ok();
    let path = format!("{PODS}/p");
    let marked = delete(&server, &path, None).await.ok();
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        delete(&server, &format!("{path}?gracePeriodSeconds=60"), None).await.ok(),
        marked,
        "no later"
    );
    let sooner = delete(&server, &path, Some(json!({"gracePeriodSeconds": 10}))).await.ok();
    assert_eq!(sooner["metadata"]["deletionTimestamp"], "2026-01-01T00:00:10Z");
    let touched = patch(&server, &path, "merge", &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(touched.code, 200);
    assert_eq!(get(&server, &path).await.code, 200, "an update does not end the grace period");
    assert_eq!(delete(&server, &path, Some(json!({"gracePeriodSeconds": 0}))).await.code, 200);
    assert_eq!(get(&server, &path).await.code, 404);

    post(&server, PODS, &pod("unassigned")).await.ok();
    delete(&server, &format!("{PODS}/unassigned"), None).await.ok();
    assert_eq!(get(&server, &format!("{PODS}/unassigned")).await.code, 404);
}

#[tokio::test]
async fn many_at_once() {
    let server = server().await;
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = configmap(name);
        object["metadata"]["labels"] = json!({"l": label});
        post(&server, CONFIGMAPS, &object).await.ok();
    }
    let gone = delete(&server, &format!("{CONFIGMAPS}?labelSelector=l%3Dx"), None).await.ok();
    assert_eq!(gone["kind"], "ConfigMapList");
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&gone), ["a", "c"]);
    assert_eq!(names(&get(&server, CONFIGMAPS).await.ok()), ["b"]);
    assert_eq!(delete(&server, "/api/v1/configmaps", None).await.code, 405);
}

#[tokio::test]
async fn a_namespace_on_its_way_out_takes_nothing_new() {
    let server = server().await;
    let namespace = json!({"metadata": {"name": "n", "finalizers": ["example.com/x"]}});
    post(&server, "/api/v1/namespaces", &namespace).await.ok();
    delete(&server, "/api/v1/namespaces/n", None).await.ok();
    let answer = post(&server, "/api/v1/namespaces/n/configmaps", &configmap("a")).await;
    assert_eq!(answer.code, 403);
    assert_eq!(
        answer.body["message"],
        r#"configmaps "a" is forbidden: unable to create new content in namespace n because it is being terminated"#
    );
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
}
