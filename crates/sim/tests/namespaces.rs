//! What every namespace gets: an account and the authority's certificate, and both again when somebody takes them away.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_api::{ConfigMap, Namespace, ObjectKey, ServiceAccount};
use bowline_machinery::{Ports, role};
use bowline_roles::controllers::{rootcacertpublisher, serviceaccount};
use bowline_sim::stage::Stage;
use http::Method;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

const ROOT: &str = "the certificate";
const MAP: &str = "kube-root-ca.crt";

async fn within<T>(work: impl Future<Output = T>, what: &str) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .unwrap_or_else(|_| panic!("{what}: waited in vain"))
}

/// Waits until the account and the certificate are in a namespace as they should be.
async fn settled(ports: &Ports, namespace: &str) -> (String, String) {
    let accounts = ports.informers.of::<ServiceAccount>();
    let maps = ports.informers.of::<ConfigMap>();
    let uid =
        |metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| metadata.uid.clone().unwrap();
    let account = accounts.until(|cache| cache.get(&ObjectKey::new(namespace, "default")));
    let account = within(account, "the account").await;
    let right =
        |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data.len() == 1 && data["ca.crt"] == ROOT);
    let map = maps.until(|cache| cache.get(&ObjectKey::new(namespace, MAP)).filter(|map| right(map)));
    let map = within(map, "the certificate").await;
    (uid(&account.metadata), uid(&map.metadata))
}

#[tokio::test(start_paused = true)]
async fn a_namespace_gets_both_and_keeps_both() {
    let stage = Stage::new(7).await;
    let process = stage.process(stage.line());
    let ports = process.ports.clone();
    let process = process.with(role::run::<serviceaccount::Accounts>(ports.clone(), ())).with(role::run::<
        rootcacertpublisher::Publisher,
    >(
        ports.clone(),
        ROOT.into(),
    ));
    settled(&ports, "kube-system").await;

    let client = stage.process(stage.line()).ports.client;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let fresh = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    namespaces.create(&PostParams::default(), &fresh).await.unwrap();
    let (account, map) = settled(&ports, "n").await;

    // Deleted, both come back as new objects.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "n");
    let maps: Api<ConfigMap> = Api::namespaced(client, "n");
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    maps.delete(MAP, &DeleteParams::default()).await.unwrap();
    let again = async {
        loop {
            let (new_account, new_map) = settled(&ports, "n").await;
            if new_account != account && new_map != map {
                return new_map;
            }
            tokio::task::yield_now().await;
        }
    };
    let map = within(again, "both again").await;

    // Changed, the certificate is put right.
    let wrong = json!({"data": {"ca.crt": "forged", "more": "x"}});
    maps.patch(MAP, &PatchParams::default(), &Patch::Merge(&wrong)).await.unwrap();
    let restored = async {
        while maps.get(MAP).await.unwrap().data.unwrap()["ca.crt"] != ROOT {
            tokio::task::yield_now().await;
        }
    };
    within(restored, "the right certificate").await;
    assert_eq!(maps.get(MAP).await.unwrap().metadata.uid.unwrap(), map, "the same object");

    // A namespace that goes is left alone, or it would never be empty.
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while namespaces.get_opt("n").await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    };
    within(gone, "the namespace goes").await;
    process.end().await;
}

/// Goal: an object that exists although the cache lacks it is asked for with back-off, not in a loop (seed 504).
#[tokio::test(start_paused = true)]
async fn a_create_that_finds_the_object_backs_off_until_the_watch_brings_it() {
    const LATE: Duration = Duration::from_secs(5);
    const FAR_TOO_MANY: usize = 200;
    let stage = Stage::new(7).await;
    let creates = Arc::new(AtomicUsize::new(0));
    let counted = creates.clone();
    // What a loop asks for stays without an answer at some time, or time would stand still.
    let line = stage.line().losing(move |request| {
        request.method() == Method::POST && counted.fetch_add(1, Ordering::SeqCst) >= FAR_TOO_MANY
    });
    let line =
        line.slow(&[("namespaces", Duration::from_secs(1)), ("configmaps", LATE), ("serviceaccounts", LATE)]);
    let process = stage.process(line);
    let ports = process.ports.clone();
    let process = process.with(role::run::<serviceaccount::Accounts>(ports.clone(), ()));
    let process = process.with(role::run::<rootcacertpublisher::Publisher>(ports.clone(), ROOT.into()));
    settled(&ports, "kube-system").await;
    let before = creates.load(Ordering::SeqCst);

    // Another publisher is first, and its objects come late.
    let client = stage.process(stage.line()).ports.client;
    let created = PostParams::default();
    let namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&created, &namespace).await.unwrap();
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    Api::<ServiceAccount>::namespaced(client.clone(), "n").create(&created, &account).await.unwrap();
    let map = json!({"metadata": {"name": MAP}, "data": {"ca.crt": ROOT}});
    let map = serde_json::from_value(map).unwrap();
    Api::<ConfigMap>::namespaced(client, "n").create(&created, &map).await.unwrap();
    settled(&ports, "n").await;
    let tried = creates.load(Ordering::SeqCst) - before;
    assert!((4..60).contains(&tried), "{tried} creates");
    process.end().await;
}
