//! The binder, the protections and the scheduler against the API server in memory, on paused time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

mod binder;
mod crash;
mod protection;
mod scheduling;
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, Pod, build, pod, volume};
use bowline_sim::stage::Cut;
use serde_json::json;
use tokio::time::Instant;
use world::{DRIVER, World};

/// Far less than upstream's 15 s resync: whatever comes true within it was pushed.
const AT_ONCE: Duration = Duration::from_millis(200);

fn static_volume(name: &str, class: &str) -> PersistentVolume {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "storageClassName": class,
    });
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn bound(world: &World, claim: &PersistentVolumeClaim) -> bool {
    world.get(claim).await.is_some_and(|c| volume::claim_phase(&c) == volume::BOUND)
}

async fn phase(world: &World, of: &PersistentVolume) -> String {
    world.get(of).await.map(|v| volume::volume_phase(&v).to_owned()).unwrap_or_default()
}

async fn node_of(world: &World, name: &str) -> String {
    world::pod(world, name).await.map(|p| pod::node_name(&p).to_owned()).unwrap_or_default()
}

async fn reasons(world: &World) -> Vec<String> {
    world.reasons().await
}

/// BIND-1 over everything there is.
async fn check_pairs(world: &World) {
    let claims = world.list::<PersistentVolumeClaim>().await;
    let mut taken = BTreeSet::new();
    for claim in claims.iter().filter(|c| volume::bound(c)) {
        assert!(taken.insert(volume::claim_volume(claim).to_owned()), "BIND-1: {} shared", claim.key());
    }
}

/// Claim, pod and node of a class that waits for its consumer.
async fn late_pod(world: &World) -> (PersistentVolumeClaim, Pod) {
    world.create(&build::class("late", DRIVER).wait_for_consumer().build()).await;
    world.add_node("n1").await;
    let claim = world.create(&build::claim("data").class("late").build()).await;
    let pod = world.create(&build::pod("web").mount("data", "/data").build()).await;
    (claim, pod)
}
