//! The garbage collector against the API server, on paused time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

mod forests;
mod world;

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use world::{CLASSES, MAPS, SECRETS, World};

fn path(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[tokio::test(start_paused = true)]
async fn what_a_deleted_object_owned_goes_too() {
    let world = World::new(1).await;
    let a = world.make(MAPS, "a", &[]).await;
    let b = world.make(SECRETS, "b", std::slice::from_ref(&a)).await;
    world.make(MAPS, "c", std::slice::from_ref(&b)).await;
    world.make(MAPS, "d", &[a, b]).await;
    world.make(MAPS, "other", &[]).await;
    let process = world.start();
    world.settle().await;
    assert_eq!(process.writes(), 0, "nothing to collect");
    world.remove(&path("a"), "Background").await;
    world.until("all are gone", async || world.owners(MAPS).await.len() == 1).await;
    assert!(world.at(&format!("{SECRETS}/b")).await.is_none());
    process.end().await;
}

/// B20: half a second between tries, for each of fifty kinds, was a burden for a server that came back.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_is_asked_for_less_and_less_often() {
    let world = World::new(1).await;
    let (process, asked) = world.start_without("/api/v1/configmaps");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let asked = asked.load(Ordering::SeqCst);
    assert!((10..60).contains(&asked), "{asked} requests in ten minutes");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn dependents_that_block_go_first() {
    let world = World::new(2).await;
    let a = world.make(MAPS, "a", &[]).await;
    let b = world.make(MAPS, "b", std::slice::from_ref(&a)).await;
    world.make(MAPS, "c", &[b]).await;
    let mut process = world.start();
    world.remove(&path("a"), "Foreground").await;
    world.until_gone(&path("a")).await;
    let journal = process.journal();
    let last =
        |what: &str| journal.iter().rposition(|line| line == what).unwrap_or_else(|| panic!("{journal:?}"));
    let (c, b, a) = (
        last("delete configmap default/c"),
        last("patch configmap default/b"),
        last("patch configmap default/a"),
    );
    assert!(c < b && b < a, "{journal:?}");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_somebody_holds_holds_its_owner() {
    let world = World::new(3).await;
    let a = world.make(MAPS, "a", &[]).await;
    world.make(MAPS, "held", std::slice::from_ref(&a)).await;
    let mut free = a;
    free["blockOwnerDeletion"] = false.into();
    world.make(MAPS, "free", &[free]).await;
    for name in ["held", "free"] {
        let hold = json!({"metadata": {"finalizers": ["example.com/x"]}});
        merge(&world, &path(name), hold).await;
    }
    let process = world.start();
    world.remove(&path("a"), "Foreground").await;
    world.settle().await;
    for name in ["a", "held", "free"] {
        let found = world.at(&path(name)).await.unwrap();
        assert!(found["metadata"]["deletionTimestamp"].is_string(), "{name}");
    }
    merge(&world, &path("held"), json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(&path("a")).await;
    assert!(world.at(&path("free")).await.is_some(), "it holds up no other volume");
    process.end().await;
}

async fn merge(world: &World, path: &str, patch: Value) {
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let body = kube::client::Body::from(patch.to_string().into_bytes());
    let response = world.server.handle(request.body(body).unwrap()).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_even_those_that_nobody_heard_of_yet() {
    let world = World::new(4).await;
    let a = world.make(MAPS, "a", &[]).await;
    world.make(MAPS, "near", std::slice::from_ref(&a)).await;
    let process = world.start_with(None, &[("secrets", Duration::from_secs(20))]);
    world.settle().await;
    world.make(SECRETS, "far", &[a]).await;
    world.remove(&path("a"), "Orphan").await;
    world.until_gone(&path("a")).await;
    world.settle().await;
    assert_eq!(world.owners(MAPS).await, [("near".to_owned(), Vec::new())].into());
    assert_eq!(world.owners(SECRETS).await, [("far".to_owned(), Vec::new())].into());
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_circle_comes_apart() {
    let world = World::new(5).await;
    let a = world.make(MAPS, "a", &[]).await;
    let b = world.make(MAPS, "b", &[a]).await;
    merge(&world, &path("a"), json!({"metadata": {"ownerReferences": [b]}})).await;
    let process = world.start();
    world.settle().await;
    assert_eq!(world.owners(MAPS).await.len(), 2, "each keeps the other");
    world.remove(&path("a"), "Foreground").await;
    world.until("both are gone", async || world.owners(MAPS).await.is_empty()).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_who_it_was_not_what_it_was_called() {
    let world = World::new(6).await;
    let mut owner = world.make(MAPS, "a", &[]).await;
    let process = world.start();
    owner["uid"] = "somebody-else".into();
    world.make(MAPS, "impostors", &[owner.clone()]).await;
    owner["name"] = "nobody".into();
    world.make(MAPS, "nobodys", &[owner]).await;
    world.until("both are gone", async || world.owners(MAPS).await.len() == 1).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn owners_where_they_cannot_be() {
    let world = World::new(7).await;
    world.send(Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    let near = world.make(MAPS, "near", &[]).await;
    let far = world.make("/api/v1/namespaces/other/configmaps", "far", &[]).await;
    let mut process = world.start();
    world.make(CLASSES, "cluster-wide", &[near]).await;
    world.make(MAPS, "abroad", &[far]).await;
    world.until_gone(&path("abroad")).await;
    world.settle().await;
    assert!(world.at(&format!("{CLASSES}/cluster-wide")).await.is_some(), "nowhere to look for its owner");
    assert_eq!(process.journal(), ["delete configmap default/abroad"]);
    let events = world.at("/api/v1/events").await.unwrap();
    let mut messages: Vec<(&str, &str)> = Vec::new();
    for event in events["items"].as_array().unwrap() {
        assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
        let text = event["message"].as_str().unwrap();
        messages.push((event["involvedObject"]["name"].as_str().unwrap(), text.rsplit_once("] ").unwrap().1));
    }
    messages.sort();
    let want = [
        ("abroad", "does not exist in namespace \"default\""),
        ("cluster-wide", "does not exist in namespace \"\""),
    ];
    assert_eq!(messages, want);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_a_kind_that_nobody_knows_may_be_there() {
    let world = World::new(8).await;
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"});
    let process = world.start();
    world.make(MAPS, "a", &[owner]).await;
    world.settle().await;
    assert!(world.at(&path("a")).await.is_some());
    assert_eq!(process.writes(), 0);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_dependents_cost_a_thousand_writes() {
    let world = World::new(9).await;
    let a = world.make(MAPS, "a", &[]).await;
    for number in 0..1000 {
        world.make(MAPS, &format!("d{number}"), std::slice::from_ref(&a)).await;
    }
    let process = world.start();
    world.remove(&path("a"), "Background").await;
    world.until("all are gone", async || world.owners(MAPS).await.is_empty()).await;
    assert_eq!(process.writes(), 1000, "one deletion each");
    process.end().await;
}
