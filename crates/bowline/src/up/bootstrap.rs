//! The objects that stand ready when the API server answers for the first time.

use anyhow::{Context, Result};
use bowline_api::snapshot::DELETE;
use bowline_api::{
    CSIDriver, Meta, Namespace, ServiceAccount, StorageClass, VolumeSnapshotClass, build, keys,
};
use bowline_drivers::{local, share};
use bowline_machinery::client::account::NAMESPACE;
use bowline_machinery::{Client, Object};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::core::params::{GetParams, PostParams};

use super::crds;
use crate::rbac;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The default class: volumes are made where the first pod runs.
pub const CLASS: &str = "local";
/// The same, made as soon as a claim asks.
pub const CLASS_IMMEDIATE: &str = "local-immediate";
/// Directories for any number of pods at once; made as soon as a claim asks.
pub const CLASS_SHARE: &str = "share";

/// Creates what is missing and leaves alone what is there: the user may have changed it.
pub async fn bootstrap(client: &Client) -> Result<()> {
    for name in NAMESPACES {
        ensure(client, &Namespace { metadata: named("", name), ..Default::default() }).await?;
    }
    ensure(client, &ServiceAccount { metadata: named("default", "default"), ..Default::default() }).await?;
    grant_sidecars(client).await?;
    for driver in [local_driver(), share_driver()] {
        ensure(client, &driver).await?;
    }
    for class in [
        build::class(CLASS, local::NAME).default_class().wait_for_consumer().expandable(),
        build::class(CLASS_IMMEDIATE, local::NAME).expandable(),
        build::class(CLASS_SHARE, share::NAME).expandable(),
    ] {
        ensure::<StorageClass>(client, &class.build()).await?;
    }
    snapshots(client).await
}

/// The kinds of snapshots, and the class of the local driver's.
async fn snapshots(client: &Client) -> Result<()> {
    for definition in crds::definitions()? {
        ensure::<CustomResourceDefinition>(client, &definition).await?;
    }
    let mut class = VolumeSnapshotClass {
        metadata: named("", CLASS),
        driver: local::NAME.to_owned(),
        parameters: None,
        deletion_policy: DELETE.to_owned(),
    };
    class.set_annotation(keys::DEFAULT_SNAPSHOT_CLASS, "true");
    ensure(client, &class).await
}

/// The rights of the sidecars in this process, which upstream ships in their manifests and not in the API server. Classes
/// may name secrets, whatever driver the user brings.
async fn grant_sidecars(client: &Client) -> Result<()> {
    let snapshots = [rbac::snapshotter(true), rbac::snapshot_controller()];
    for grant in
        [rbac::provisioner(true), rbac::attacher(true), rbac::resizer(true)].into_iter().chain(snapshots)
    {
        for object in rbac::grant_objects(&grant, NAMESPACE, &rbac::Holder::ServiceAccount) {
            match object["kind"].as_str() {
                Some("ServiceAccount") => ensure::<ServiceAccount>(client, &decoded(object)?).await?,
                Some("ClusterRole") => restore::<ClusterRole>(client, &decoded(object)?).await?,
                Some("Role") => restore::<Role>(client, &decoded(object)?).await?,
                Some("ClusterRoleBinding") => ensure::<ClusterRoleBinding>(client, &decoded(object)?).await?,
                _ => ensure::<RoleBinding>(client, &decoded(object)?).await?,
            }
        }
    }
    Ok(())
}

fn decoded<K: Object>(object: serde_json::Value) -> Result<K> {
    serde_json::from_value(object).with_context(|| format!("decode a bootstrap {}", K::kind(&())))
}

/// Replaces other rules that are there: another version of this program may have needed other rights. Nothing is written
/// if there is nothing to change, so that a full disk hinders no start.
async fn restore<K: Object>(client: &Client, object: &K) -> Result<()> {
    ensure(client, object).await?;
    let namespace = (!object.namespace().is_empty()).then(|| object.namespace());
    let path = Request::new(K::url_path(&(), namespace));
    let failed = || format!("restore {} `{}`", K::kind(&()), object.name());
    let there = client.request::<K>(path.get(object.name(), &GetParams::default())?).await;
    let rules = |object: &K| serde_json::to_value(object).map(|object| object["rules"].clone());
    if rules(&there.with_context(failed)?)? == rules(object)? {
        return Ok(());
    }
    let body = serde_json::to_vec(object).context("encode a bootstrap object")?;
    let request = path.replace(object.name(), &PostParams::default(), body)?;
    client.request::<K>(request).await.map(drop).with_context(failed)
}

fn local_driver() -> CSIDriver {
    // Volumes that pods describe themselves are told apart by what the driver is told of the pod.
    let spec = CSIDriverSpec {
        attach_required: Some(true),
        pod_info_on_mount: Some(true),
        volume_lifecycle_modes: Some(vec!["Persistent".into(), "Ephemeral".into()]),
        ..Default::default()
    };
    CSIDriver { metadata: named("", local::NAME), spec }
}

/// Nothing is attached, and group ownership is the driver's own work (`VOLUME_MOUNT_GROUP`).
fn share_driver() -> CSIDriver {
    let spec = CSIDriverSpec {
        attach_required: Some(false),
        pod_info_on_mount: Some(false),
        fs_group_policy: Some("None".into()),
        volume_lifecycle_modes: Some(vec!["Persistent".into()]),
        ..Default::default()
    };
    CSIDriver { metadata: named("", share::NAME), spec }
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    ObjectMeta { name: Some(name.into()), namespace, ..Default::default() }
}

async fn ensure<K: Object>(client: &Client, object: &K) -> Result<()> {
    let namespace = (!object.namespace().is_empty()).then(|| object.namespace());
    let body = serde_json::to_vec(object).context("encode a bootstrap object")?;
    let request = Request::new(K::url_path(&(), namespace)).create(&PostParams::default(), body)?;
    match client.request::<K>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        // On an installation that has run before; others do not come this far. Room can be made only once it runs.
        Err(kube::Error::Api(status)) if status.code == 507 => {
            let (kind, name) = (K::kind(&()), object.name());
            tracing::warn!(
                why = status.message,
                "{kind} `{name}` is not created: start again when there is room"
            );
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("create {} `{}`", K::kind(&()), object.name())),
    }
}
