use std::time::Duration;

use bowline_host::Clock;
use bytes::Bytes;
use futures::{TryFutureExt, poll, stream};
use http::Request;
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::*;

#[tokio::test]
async fn a_kind_is_there_when_its_definition_is_answered() {
    let server = server().await;
    assert_eq!(get(&server, WIDGETS).await.code, 404);
    let made = post(&server, DEFINITIONS, &widgets()).await.ok();
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    post(&server, WIDGETS, &widget("a", json!({"x": 1}))).await.ok();

    let stored = get(&server, &format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(condition(&stored, "NamesAccepted"), "True NoConflicts");
    assert_eq!(condition(&stored, "Established"), "True InitialNamesAccepted");
    assert_eq!(stored["status"]["acceptedNames"]["shortNames"], json!(["widgetsx"]));
    let resources = get(&server, "/apis/example.com/v1").await.ok();
    let widgets = &resources["resources"][0];
    assert_eq!((&widgets["name"], &widgets["singularName"]), (&json!("widgets"), &json!("widget")));
    assert_eq!(widgets["categories"], json!(["all"]));
}

#[tokio::test]
async fn names_belong_to_who_comes_first() {
    let server = server().await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    let mut second = definition("gadgets", "Widget", &[version("v1", free())]);
    second["spec"]["names"]["shortNames"] = json!(["widgets"]);
    post(&server, DEFINITIONS, &second).await.ok();
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let refused = get(&server, &path).await.ok();
    assert_eq!(condition(&refused, "NamesAccepted"), "False ListKindConflict");
    assert_eq!(condition(&refused, "Established"), "False NotAccepted");
    assert_eq!(refused["status"]["acceptedNames"]["plural"], "gadgets");
    assert_eq!(get(&server, "/apis/example.com/v1/gadgets").await.code, 404);

    delete(&server, &format!("{DEFINITIONS}/widgets.example.com"), None).await.ok();
    let freed = get(&server, &path).await.ok();
    assert_eq!(condition(&freed, "Established"), "True InitialNamesAccepted");
    assert_eq!(get(&server, "/apis/example.com/v1/gadgets").await.code, 200);
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    let server = server().await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    post(&server, WIDGETS, &widget("a", json!({}))).await.ok();
    let mut watching = watch(&server, &format!("{WIDGETS}?watch=1"), "*/*").await;
    assert_eq!(watching.brief().await, ("ADDED".into(), "a".into()));
    let gone = delete(&server, &format!("{DEFINITIONS}/widgets.example.com"), None).await.ok();
    assert_eq!(condition(&gone, "Terminating"), "True InstanceDeletionPending");
    assert_eq!(gone["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert!(gone["metadata"]["deletionGracePeriodSeconds"].is_null(), "{gone}");
    assert_eq!(watching.brief().await, ("DELETED".into(), "a".into()));
    assert_eq!(watching.next().await, None, "the watch of a kind that is gone ends");
    assert_eq!(get(&server, &format!("{DEFINITIONS}/widgets.example.com")).await.code, 404);
    assert_eq!(get(&server, WIDGETS).await.code, 404);
    post(&server, DEFINITIONS, &widgets()).await.ok();
    assert_eq!(get(&server, WIDGETS).await.ok()["items"], json!([]), "nothing of the former ones is left");
}

#[tokio::test]
async fn objects_that_are_held_hold_their_definition() {
    let server = server().await;
    let stop = CancellationToken::new();
    let (following, token) = (server.clone(), stop.clone());
    let task = tokio::spawn(async move { following.follow_definitions(token).await });
    post(&server, DEFINITIONS, &widgets()).await.ok();
    let mut held = widget("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&server, WIDGETS, &held).await.ok();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    delete(&server, &path, None).await.ok();
    let waiting = get(&server, &path).await.ok();
    assert_eq!(condition(&waiting, "Terminating"), "True InstanceDeletionInProgress");
    let refused = post(&server, WIDGETS, &widget("b", json!({}))).await;
    let text = "widgets.example.com \"b\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!((refused.code, refused.body["message"].as_str()), (403, Some(text)));
    let verbs = &get(&server, "/apis/example.com/v1").await.ok()["resources"][0]["verbs"].clone();
    assert_eq!(*verbs, json!(["delete", "deletecollection", "get", "list", "watch"]));

    // Whoever holds the object lets it go; the definition follows without anybody asking again.
    let mut watching = watch(
        &server,
        &format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3Dwidgets.example.com"),
        "*/*",
    )
    .await;
    watching.next().await.unwrap();
    patch(&server, &format!("{WIDGETS}/a"), "merge", &json!({"metadata": {"finalizers": null}})).await.ok();
    let event = tokio::time::timeout(Duration::from_secs(20), watching.next()).await.unwrap().unwrap();
    assert_eq!(event["type"], "DELETED");
    stop.cancel();
    task.await.unwrap();
}

/// Two servers on one store come to the same kinds, and so does one that starts later.
#[tokio::test]
async fn the_store_says_which_kinds_there_are() {
    let store = Store::memory();
    let (one, other) = (real_server(store.clone()).await, real_server(store.clone()).await);
    let stop = CancellationToken::new();
    let (following, token) = (other.clone(), stop.clone());
    let task = tokio::spawn(async move { following.follow_definitions(token).await });
    post(&one, DEFINITIONS, &widgets()).await.ok();
    let served = async {
        while get(&other, WIDGETS).await.code == 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), served).await.unwrap();
    post(&other, WIDGETS, &widget("a", json!({}))).await.ok();
    assert_eq!(get(&one, &format!("{WIDGETS}/a")).await.code, 200);
    let late = real_server(store).await;
    assert_eq!(get(&late, &format!("{WIDGETS}/a")).await.code, 200);

    delete(&one, &format!("{DEFINITIONS}/widgets.example.com"), None).await.ok();
    let gone = async {
        while get(&other, WIDGETS).await.code != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    stop.cancel();
    task.await.unwrap();
}

/// What a crash left half done is finished at the next start.
#[tokio::test]
async fn a_restart_takes_up_what_was_left() {
    use crate::store::{Change, Expect, Write};
    let store = Store::memory();
    let server = real_server(store.clone()).await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    post(&server, WIDGETS, &widget("a", json!({}))).await.ok();
    // The definition is stored as it is right after its deletion was asked for, and before anything else.
    let key = bowline_api::ObjectKey::cluster("widgets.example.com");
    let stored = store.get(crate::custom::TABLE, &key).unwrap();
    let ending = crate::custom::definition::status::announced(&stored.value(), clock().now());
    let expect = Expect::Version(stored.version);
    let write = Write { resource: crate::custom::TABLE.into(), key, expect, change: Change::Put(ending) };
    store.write(write).await.unwrap();
    let restarted = real_server(store.clone()).await;
    assert_eq!(get(&restarted, &format!("{DEFINITIONS}/widgets.example.com")).await.code, 404);
    assert_eq!(store.page("widgets.example.com", None, None, None, 10).unwrap().objects.len(), 0);
}

/// Nobody can define away a kind of this build, or delete its objects that way.
#[tokio::test]
async fn a_kind_of_this_build_stays() {
    let server = server().await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "x",
    });
    post(&server, CLASSES, &class).await.ok();
    let mut evil = definition("storageclasses", "StorageClass", &[version("v1", free())]);
    evil["metadata"]["name"] = "storageclasses.storage.k8s.io".into();
    evil["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    evil["spec"]["group"] = "storage.k8s.io".into();
    evil["spec"]["scope"] = "Cluster".into();
    post(&server, DEFINITIONS, &evil).await.ok();
    assert_eq!(get(&server, &format!("{CLASSES}/fast")).await.ok()["provisioner"], "x");
    delete(&server, &format!("{DEFINITIONS}/storageclasses.storage.k8s.io"), None).await.ok();
    assert_eq!(get(&server, &format!("{CLASSES}/fast")).await.code, 200);

    // One that is stored in the table of another.
    const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    let about = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": about, "reason": "Seen"});
    post(&server, "/api/v1/namespaces/default/events", &event).await.ok();
    let mut evil = definition("events", "Event", &[version("v1", free())]);
    evil["metadata"]["name"] = "events.events.k8s.io".into();
    evil["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    evil["spec"]["group"] = "events.k8s.io".into();
    post(&server, DEFINITIONS, &evil).await.ok();
    assert_eq!(get(&server, &format!("{EVENTS}/e")).await.ok()["reason"], "Seen");
    delete(&server, &format!("{DEFINITIONS}/events.events.k8s.io"), None).await.ok();
    assert_eq!(get(&server, &format!("{EVENTS}/e")).await.code, 200);
}

fn request<B>(body: B) -> Request<B> {
    Request::post(WIDGETS).header("content-type", "application/json").body(body).unwrap()
}

fn left(store: &Store) -> usize {
    store.page("widgets.example.com", None, None, None, 10).unwrap().objects.len()
}

/// Nothing is stored by a kind that went while a body was on its way.
#[tokio::test]
async fn a_body_that_comes_after_the_definition_has_gone() {
    let store = Store::memory();
    let server = real_server(store.clone()).await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    let (sender, body) = oneshot::channel();
    let body = StreamBody::new(stream::once(body.map_ok(Frame::data)));
    let mut slow = Box::pin(server.handle(request(body)));
    assert!(poll!(&mut slow).is_pending(), "there is no body yet");
    delete(&server, &format!("{DEFINITIONS}/widgets.example.com"), None).await.ok();
    sender.send(Bytes::from(widget("a", json!({})).to_string())).unwrap();
    assert_eq!(slow.await.status(), 404);
    assert_eq!(left(&store), 0);
}

/// Neither by one that goes while an object is about to be written, even if nobody waits for the answer any more.
#[tokio::test]
async fn a_definition_waits_for_writes_under_way() {
    let store = Store::memory();
    let server = real_server(store.clone()).await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    let body = Full::new(Bytes::from(widget("a", json!({})).to_string()));
    let mut create = Box::pin(server.handle(request(body)));
    assert!(poll!(&mut create).is_pending(), "its turn comes when this test waits for something");
    drop(create);
    delete(&server, &format!("{DEFINITIONS}/widgets.example.com"), None).await.ok();
    tokio::task::yield_now().await;
    assert_eq!(left(&store), 0);
}

#[tokio::test]
async fn a_namespace_takes_custom_resources_along() {
    let server = server().await;
    post(&server, DEFINITIONS, &widgets()).await.ok();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    post(&server, "/api/v1/namespaces", &namespace).await.ok();
    post(&server, &WIDGETS.replace("default", "n"), &widget("a", json!({}))).await.ok();
    delete(&server, "/api/v1/namespaces/n", None).await.ok();
    assert_eq!(get(&server, "/api/v1/namespaces/n").await.code, 404);
}
