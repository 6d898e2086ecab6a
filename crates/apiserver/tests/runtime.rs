//! kube-rs's own watcher, reflector and controller runtime against the server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::Store;
use bowline_apiserver::store::Limits;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, WatchStreamExt, reflector, watcher};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

async fn configmaps(store: Store) -> Api<ConfigMap> {
    Api::default_namespaced(Client::new(common::server(store).await, "default"))
}

fn configmap(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap()
}

async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    api.create(&PostParams::default(), &configmap(name, "0")).await.unwrap()
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

fn words(event: watcher::Event<ConfigMap>) -> String {
    match event {
        watcher::Event::Init => "init".into(),
        watcher::Event::InitApply(object) => format!("there {}", object.name_any()),
        watcher::Event::InitDone => "all there".into(),
        watcher::Event::Apply(object) => format!("{}={}", object.name_any(), object.data.unwrap()["value"]),
        watcher::Event::Delete(object) => format!("gone {}", object.name_any()),
    }
}

#[tokio::test]
async fn watchers_of_both_sorts_see_the_same() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let api = configmaps(Store::memory()).await;
        create(&api, "a").await;
        create(&api, "b").await;
        let mut events = pin!(watcher(api.clone(), config).map_ok(words));
        let mut next = async || within("an event", events.try_next()).await.unwrap().unwrap();
        let first = [next().await, next().await, next().await, next().await];
        assert_eq!(first, ["init", "there a", "there b", "all there"]);

        create(&api, "c").await;
        assert_eq!(next().await, "c=0");
        let patch = json!({"data": {"value": "1"}});
        api.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        assert_eq!(next().await, "a=1");
        api.delete("b", &DeleteParams::default()).await.unwrap();
        assert_eq!(next().await, "gone b");
    }
}

/// A watcher that comes back after more was written than is kept starts over, and misses nothing in the end.
#[tokio::test]
async fn a_watcher_that_fell_behind_starts_over() {
    let api = configmaps(Store::memory_with(Limits { log_events: 4, ..Limits::default() })).await;
    create(&api, "kept").await;
    create(&api, "doomed").await;
    let (reader, writer) = reflector::store();
    let stream = watcher(api.clone(), watcher::Config::default()).default_backoff();
    let mut events = pin!(reflector(writer, stream).map(|event| event.map(words)));
    while within("the first list", events.next()).await.unwrap().unwrap() != "all there" {}

    api.delete("doomed", &DeleteParams::default()).await.unwrap();
    for number in 0..20 {
        create(&api, &format!("late-{number}")).await;
    }
    let mut restarted = false;
    while reader.state().len() != 21 {
        match within("the second list", events.next()).await.unwrap() {
            Ok(event) => restarted |= event == "init",
            // The refusal itself; the watcher lists anew after it.
            Err(error) => assert!(error.to_string().contains("too old resource version"), "{error}"),
        }
    }
    assert!(restarted, "the history was long enough for all of it");
    assert!(reader.get(&ObjectRef::new("doomed").within("default")).is_none());
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] kube::Error);

/// Gives each parent a child that is like it.
async fn reconcile(parent: Arc<ConfigMap>, api: Arc<Api<ConfigMap>>) -> Result<Action, Failed> {
    if !parent.name_any().starts_with("parent") {
        return Ok(Action::await_change());
    }
    let mut child = configmap(&format!("child-of-{}", parent.name_any()), "made");
    child.metadata.owner_references = parent.controller_owner_ref(&()).map(|owner| vec![owner]);
    match api.create(&PostParams::default(), &child).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns() {
    let api = configmaps(Store::memory()).await;
    let controller = Controller::new(api.clone(), watcher::Config::default())
        .owns(api.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::new(api.clone()));
    let running = tokio::spawn(controller.for_each(|_| async {}));
    for name in ["parent-1", "parent-2"] {
        create(&api, name).await;
    }
    let first = within("two children", children(&api)).await;
    api.delete("child-of-parent-1", &DeleteParams::default()).await.unwrap();
    let again = within("the child that was deleted", async {
        loop {
            let found = children(&api).await;
            if found != first {
                return found;
            }
        }
    })
    .await;
    assert_eq!(first.intersection(&again).count(), 1, "one stayed, one was made anew");
    running.abort();
}

/// The uids of both children, once both are there.
async fn children(api: &Api<ConfigMap>) -> BTreeSet<String> {
    let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
    let mut found = BTreeSet::new();
    loop {
        match events.try_next().await.unwrap().unwrap() {
            watcher::Event::InitApply(object) | watcher::Event::Apply(object)
                if object.name_any().starts_with("child-of-") =>
            {
                found.insert(object.uid().unwrap());
            }
            watcher::Event::Delete(object) => drop(found.remove(&object.uid().unwrap())),
            _ => {}
        }
        if found.len() == 2 {
            return found;
        }
    }
}
