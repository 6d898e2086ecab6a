//! Objects as JSON: most of the kinds here are custom ones, and the steps read few fields of each.

use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;

use crate::support::PATIENCE;

#[derive(Clone, Copy)]
pub struct Kind {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
}

impl Kind {
    fn version(self) -> String {
        match self.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        }
    }
}

const fn namespaced(group: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, kind, plural, namespaced: true }
}

const fn cluster_wide(group: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, kind, plural, namespaced: false }
}

const STORAGE: &str = "storage.k8s.io";
const SNAPSHOT: &str = "snapshot.storage.k8s.io";
const GROUP: &str = "groupsnapshot.storage.k8s.io";

pub const POD: Kind = namespaced("", "Pod", "pods");
pub const CLAIM: Kind = namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const VOLUME: Kind = cluster_wide("", "PersistentVolume", "persistentvolumes");
pub const CLASS: Kind = cluster_wide(STORAGE, "StorageClass", "storageclasses");
pub const ATTRIBUTES: Kind = cluster_wide(STORAGE, "VolumeAttributesClass", "volumeattributesclasses");
pub const ATTACHMENT: Kind = cluster_wide(STORAGE, "VolumeAttachment", "volumeattachments");
pub const SNAPSHOT_CLASS: Kind = cluster_wide(SNAPSHOT, "VolumeSnapshotClass", "volumesnapshotclasses");
pub const CONTENT: Kind = cluster_wide(SNAPSHOT, "VolumeSnapshotContent", "volumesnapshotcontents");
pub const VOLUME_SNAPSHOT: Kind = namespaced(SNAPSHOT, "VolumeSnapshot", "volumesnapshots");
pub const GROUP_CLASS: Kind = cluster_wide(GROUP, "VolumeGroupSnapshotClass", "volumegroupsnapshotclasses");
pub const GROUP_CONTENT: Kind =
    cluster_wide(GROUP, "VolumeGroupSnapshotContent", "volumegroupsnapshotcontents");
pub const GROUP_SNAPSHOT: Kind = namespaced(GROUP, "VolumeGroupSnapshot", "volumegroupsnapshots");

/// Of the namespace `default`, or of the whole cluster.
pub struct Objects(pub Client);

impl Objects {
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: kind.group.into(),
            version: "v1".into(),
            api_version: kind.version(),
            kind: kind.kind.into(),
            plural: kind.plural.into(),
        };
        match kind.namespaced {
            true => Api::default_namespaced_with(self.0.clone(), &resource),
            false => Api::all_with(self.0.clone(), &resource),
        }
    }

    /// Creates an object; its version, kind and name are added.
    pub async fn create(&self, kind: Kind, name: &str, mut object: Value) {
        object["apiVersion"] = kind.version().into();
        object["kind"] = kind.kind.into();
        object["metadata"]["name"] = name.into();
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let created = self.api(kind).create(&PostParams::default(), &object).await;
        created.unwrap_or_else(|error| panic!("create {} {name}: {error}", kind.kind));
    }

    pub async fn merge(&self, kind: Kind, name: &str, patch: Value) {
        let patched = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap_or_else(|error| panic!("patch {} {name}: {error}", kind.kind));
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        match self.api(kind).delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("delete {} {name}: {error}", kind.kind),
        }
    }

    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        let listed = self.api(kind).list(&Default::default()).await;
        let listed = listed.unwrap_or_else(|error| panic!("list {}: {error}", kind.plural));
        listed.items.iter().map(value).collect()
    }

    /// Waits by watch until the named object satisfies `found`; returns it as it was then.
    pub async fn until(&self, kind: Kind, name: &str, what: &str, found: impl Fn(&Value) -> bool) -> Value {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = Box::pin(watcher(self.api(kind), config));
        let mut last = Value::Null;
        let wait = async {
            loop {
                match events.try_next().await {
                    Ok(Some(Event::InitApply(object) | Event::Apply(object))) => last = value(&object),
                    Ok(Some(Event::Delete(_))) => last = Value::Null,
                    Ok(Some(_)) => continue,
                    Ok(None) => panic!("the watch of {} ended", kind.plural),
                    // The server knows a custom kind a moment later.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                }
                if found(&last) {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await.is_ok();
        assert!(waited, "{} {name} is not {what}: {last:#}", kind.kind);
        last
    }

    /// Waits until the named object is gone.
    pub async fn gone(&self, kind: Kind, name: &str) {
        let gone = async {
            while self.api(kind).get_opt(name).await.expect("an answer").is_some() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, gone).await.is_err() {
            let object = self.api(kind).get_opt(name).await;
            panic!(
                "{} {name} does not go: {:#}",
                kind.kind,
                object.ok().flatten().map_or(Value::Null, |o| value(&o))
            );
        }
    }

    /// Waits until there is no object of this kind.
    pub async fn none(&self, kind: Kind) {
        for object in self.list(kind).await {
            self.gone(kind, object["metadata"]["name"].as_str().expect("a name")).await;
        }
    }
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("JSON")
}
