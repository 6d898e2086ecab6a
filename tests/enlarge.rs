//! Claims that ask for more, for too much and for another attributes class.

use bowline_api::VolumeAttachment;
use bowline_api::expansion::{
    CONTROLLER_RESIZE_INFEASIBLE, FILE_SYSTEM_RESIZE_PENDING, MODIFY_PENDING, NODE_RESIZE_PENDING,
    claim_capacity, condition_holds, conditions, current_attributes_class, modify_status, resize_status,
};
use bowline_api::{
    Meta, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass, build, keys, volume,
};
use bowline_drivers::local::NAME as DRIVER;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::support::Cluster;
use super::support::objects::{create, until, until_gone};
use super::{claims, delete_claim, run_pod};

async fn patch(client: &Client, claim: &str, spec: Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    claims(client).patch(claim, &PatchParams::default(), &patch).await.expect("patch the claim");
}

async fn ask_for(client: &Client, claim: &str, size: &str) {
    patch(client, claim, json!({"resources": {"requests": {"storage": size}}})).await;
}

async fn until_claim(client: &Client, claim: &str, what: &str, holds: fn(&PersistentVolumeClaim) -> bool) {
    until(&claims(client), claim, what, move |claim| claim.is_some_and(holds)).await.expect(what);
}

fn has(claim: &PersistentVolumeClaim, size: &str) -> bool {
    claim_capacity(claim).is_some_and(|capacity| capacity.0 == size)
}

/// A filesystem that is still staged is not grown by the next staging.
async fn until_detached(client: &Client) {
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    for attachment in attachments.list(&Default::default()).await.expect("list attachments").items {
        until_gone(&attachments, attachment.name()).await.expect("detached");
    }
}

fn larger_than(bytes: u64) -> String {
    format!("test $(( $(stat -f -c %b /data) * $(stat -f -c %S /data) )) -gt {bytes}")
}

/// Goal: a filesystem has its new size when the next pod starts, a size that cannot be had is
/// given up for a smaller one, and nothing stays behind. Growth under a pod that runs needs CAP_SYS_RESOURCE, which not every machine gives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filesystem_has_its_new_size_for_the_next_pod() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    create(&claims(&client), &build::claim("data").size("64Mi").build()).await.expect("create claim");
    run_pod(&client, build::pod("writer").shell("echo kept > /data/file").mount("data", "/data").build())
        .await;
    until_detached(&client).await;

    ask_for(&client, "data", "128Mi").await;
    let handed_over = |claim: &PersistentVolumeClaim| resize_status(claim) == NODE_RESIZE_PENDING;
    until_claim(&client, "data", "to wait for its node", handed_over).await;
    let claim = claims(&client).get("data").await.expect("get claim");
    assert!(condition_holds(&claim, FILE_SYSTEM_RESIZE_PENDING) && has(&claim, "64Mi"), "{:?}", claim.status);
    run_pod(&client, build::pod("user").shell(&larger_than(90_000_000)).mount("data", "/data").build()).await;
    until_claim(&client, "data", "to have 128Mi", |claim| has(claim, "128Mi")).await;
    let claim = claims(&client).get("data").await.expect("get claim");
    assert_eq!((resize_status(&claim), conditions(&claim)), ("", &[][..]), "{:?}", claim.status);
    let name = volume::claim_volume(&claim).to_owned();
    let grown = Api::<PersistentVolume>::all(client.clone()).get(&name).await.expect("get volume");
    assert_eq!(volume::capacity_bytes(&grown), Ok(128 << 20));

    ask_for(&client, "data", "512Pi").await;
    let infeasible = |claim: &PersistentVolumeClaim| resize_status(claim) == CONTROLLER_RESIZE_INFEASIBLE;
    until_claim(&client, "data", "to be infeasible", infeasible).await;
    until_detached(&client).await;
    ask_for(&client, "data", "192Mi").await;
    until_claim(&client, "data", "to wait for its node again", handed_over).await;
    let script = format!("test $(cat /data/file) = kept && {}", larger_than(150_000_000));
    run_pod(&client, build::pod("reader").shell(&script).mount("data", "/data").build()).await;
    until_claim(&client, "data", "to have 192Mi", |claim| has(claim, "192Mi")).await;
    delete_claim(&client, "data").await;
    cluster.assert_nothing_left().await;
}

/// A driver that needs no node is done at once, and says so for kubelets that mount the volume later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_grows_without_its_nodes() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    let claim =
        build::claim("common").class("share").access_mode(volume::READ_WRITE_MANY).size("64Mi").build();
    create(&claims(&client), &claim).await.expect("create claim");
    let bound = |claim: &PersistentVolumeClaim| volume::claim_phase(claim) == volume::BOUND;
    until_claim(&client, "common", "Bound", bound).await;
    ask_for(&client, "common", "128Mi").await;
    until_claim(&client, "common", "to have 128Mi", |claim| has(claim, "128Mi")).await;
    let claim = claims(&client).get("common").await.expect("get claim");
    assert_eq!(claim.annotation(keys::NODE_EXPANSION_NOT_REQUIRED), Some("true"));
    assert_eq!((resize_status(&claim), conditions(&claim)), ("", &[][..]), "{:?}", claim.status);
    delete_claim(&client, "common").await;
    cluster.assert_nothing_left().await;
}

/// Upstream's resizer notices a class that comes later only when it restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_gets_an_attributes_class_that_comes_later() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    let claim = build::claim("data").class("local-immediate").size("64Mi").build();
    create(&claims(&client), &claim).await.expect("create claim");
    let bound = |claim: &PersistentVolumeClaim| volume::claim_phase(claim) == volume::BOUND;
    until_claim(&client, "data", "Bound", bound).await;
    patch(&client, "data", json!({"volumeAttributesClassName": "wide"})).await;
    let pending = |claim: &PersistentVolumeClaim| {
        modify_status(claim).is_some_and(|status| status.status == MODIFY_PENDING)
    };
    until_claim(&client, "data", "Pending", pending).await;
    let class =
        json!({"metadata": {"name": "wide"}, "driverName": DRIVER, "parameters": {"readAheadKiB": "4096"}});
    let class: VolumeAttributesClass = serde_json::from_value(class).expect("a class");
    create(&Api::all(client.clone()), &class).await.expect("create class");
    until_claim(&client, "data", "to have the class", |claim| current_attributes_class(claim) == "wide")
        .await;
    let claim = claims(&client).get("data").await.expect("get claim");
    assert!(modify_status(&claim).is_none() && conditions(&claim).is_empty(), "{:?}", claim.status);
    let name = volume::claim_volume(&claim).to_owned();
    let modified = Api::<PersistentVolume>::all(client.clone()).get(&name).await.expect("get volume");
    assert_eq!(volume::volume_attributes_class(&modified), "wide");
    delete_claim(&client, "data").await;
    cluster.assert_nothing_left().await;
}
