//! Objects as a user handles them: create, wait, delete.

use std::fmt::Debug;

use bowline_machinery::Object;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

use super::PATIENCE;

/// Creates an object; one that is there already is what a repeated try finds.
pub async fn create<K: Object>(api: &Api<K>, object: &K) -> kube::Result<()> {
    match api.create(&PostParams::default(), object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes an object; one that is gone already is what a repeated try finds.
pub async fn delete<K: Object + Debug>(api: &Api<K>, name: &str) -> kube::Result<()> {
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits by watch until the named object (or its absence, `None`) satisfies `found`.
pub async fn until<K: Object>(
    api: &Api<K>,
    name: &str,
    what: &str,
    found: impl Fn(Option<&K>) -> bool,
) -> Result<(), String> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = Box::pin(watcher(api.clone(), config));
    let mut listed = None;
    let wait = async {
        while let Some(event) = events.try_next().await.map_err(|e| e.to_string())? {
            let now = match event {
                Event::Init => {
                    listed = None;
                    continue;
                }
                Event::InitApply(object) => {
                    listed = Some(object);
                    continue;
                }
                Event::InitDone => listed.take(),
                Event::Apply(object) => Some(object),
                Event::Delete(_) => None,
            };
            if found(now.as_ref()) {
                return Ok(());
            }
        }
        Err("the watch ended".to_owned())
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| Err(format!("waited in vain for {name}: {what}")))
}

pub async fn until_gone<K: Object>(api: &Api<K>, name: &str) -> Result<(), String> {
    until(api, name, "to be gone", |object| object.is_none()).await
}

pub async fn until_phase(client: &Client, pod: &str, phase: &str) -> Result<(), String> {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    until(&api, pod, phase, |pod| pod.is_some_and(|p| bowline_api::pod::phase(p) == phase)).await
}
