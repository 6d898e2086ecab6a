//! Two kinds on one table: each sees the other's objects in its own form.

use serde_json::{Value, json};

use crate::server::Server;
use crate::store::Store;
use crate::testing::*;

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn new_event(name: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
        "eventTime": "2026-01-01T00:08:00.000000Z", "reportingController": "example.com/me", "reportingInstance": "me-1",
        "action": "Do", "reason": "Why", "note": "hello", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    })
}

fn old_event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "R", "message": "m", "count": 3,
        "involvedObject": {"kind": "Node", "name": "n"}, "source": {"component": "c"},
    })
}

async fn server() -> Server {
    real_server(Store::memory()).await
}

#[tokio::test]
async fn one_object_in_two_forms() {
    let server = server().await;
    let made = post(&server, NEW, &new_event("a")).await.ok();
    assert_eq!((&made["apiVersion"], &made["note"]), (&json!("events.k8s.io/v1"), &json!("hello")));
    let core = get(&server, &format!("{CORE}/a")).await.ok();
    assert_eq!((&core["apiVersion"], &core["kind"]), (&json!("v1"), &json!("Event")));
    assert_eq!((&core["message"], &core["reportingComponent"]), (&json!("hello"), &json!("example.com/me")));
    assert_eq!((&core["involvedObject"]["name"], &core["note"]), (&json!("p"), &Value::Null));
    assert_eq!(core["metadata"], made["metadata"]);

    post(&server, CORE, &old_event("b")).await.ok();
    let new = get(&server, &format!("{NEW}/b")).await.ok();
    assert_eq!((&new["deprecatedCount"], &new["deprecatedSource"]["component"]), (&json!(3), &json!("c")));
    let listed = get(&server, NEW).await.ok();
    assert_eq!((&listed["kind"], &listed["apiVersion"]), (&json!("EventList"), &json!("events.k8s.io/v1")));
    let versions: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|e| &e["apiVersion"]).collect();
    assert_eq!(versions, ["events.k8s.io/v1", "events.k8s.io/v1"]);
}

#[tokio::test]
async fn changes_through_either_form() {
    let server = server().await;
    post(&server, CORE, &old_event("a")).await.ok();
    let path = format!("{NEW}/a");
    let patch_series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:09:00.000000Z"}});
    let changed = patch(&server, &path, "merge", &patch_series).await.ok();
    assert_eq!((&changed["note"], &changed["series"]["count"]), (&json!("m"), &json!(2)));
    let core = get(&server, &format!("{CORE}/a")).await.ok();
    assert_eq!((&core["message"], &core["series"]["count"]), (&json!("m"), &json!(2)));
    let again = patch(&server, &path, "merge", &json!({"note": "m"})).await;
    assert_eq!(again.version(), version(&core), "nothing changed, nothing is written");
    assert_eq!(patch(&server, &path, "merge", &json!({"note": "x"})).await.code, 422);
    let status = delete(&server, &path, None).await.ok();
    assert_eq!(status["details"]["group"], "events.k8s.io");
    assert_eq!(get(&server, &format!("{CORE}/a")).await.code, 404);
}

#[tokio::test]
async fn watches_and_selectors_of_each_form() {
    let server = server().await;
    post(&server, CORE, &old_event("a")).await.ok();
    let mut new = watch(&server, &format!("{NEW}?watch=1"), "*/*").await;
    let mut core = watch(&server, &format!("{CORE}?watch=1"), "*/*").await;
    let mut pods = watch(&server, &format!("{NEW}?watch=1&fieldSelector=regarding.kind%3DPod"), "*/*").await;
    let mut old_pods =
        watch(&server, &format!("{CORE}?watch=1&fieldSelector=involvedObject.kind%3DPod"), "*/*").await;
    post(&server, NEW, &new_event("b")).await.ok();
    delete(&server, &format!("{CORE}/b"), None).await.ok();
    for (watching, api_version, text) in
        [(&mut new, "events.k8s.io/v1", "note"), (&mut core, "v1", "message")]
    {
        for (type_, name, said) in [("ADDED", "a", "m"), ("ADDED", "b", "hello"), ("DELETED", "b", "hello")] {
            let event = watching.next().await.unwrap();
            assert_eq!(event["type"], type_);
            let object = &event["object"];
            assert_eq!((&object["metadata"]["name"], &object[text]), (&json!(name), &json!(said)));
            assert_eq!(object["apiVersion"], api_version);
        }
    }
    for watching in [&mut pods, &mut old_pods] {
        assert_eq!(watching.brief().await, ("ADDED".into(), "b".into()));
        assert_eq!(watching.brief().await, ("DELETED".into(), "b".into()));
    }
    assert_eq!(get(&server, &format!("{NEW}?fieldSelector=source%3Dc")).await.code, 400);
}

/// A namespace is empty once each object is gone, however many kinds see it.
#[tokio::test]
async fn a_namespace_takes_them_along() {
    let server = server().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    post(&server, "/api/v1/namespaces", &namespace).await.ok();
    let mut event = new_event("a");
    event["regarding"]["namespace"] = "n".into();
    post(&server, &NEW.replace("default", "n"), &event).await.ok();
    delete(&server, "/api/v1/namespaces/n", None).await.ok();
    assert_eq!(get(&server, "/api/v1/namespaces/n").await.code, 404);
}
