//! Provisioner, attach/detach controller and attacher against an API server and a driver in memory, on paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod capacity;
mod clones;
mod driver;
mod intents;
mod lag;
mod orphans;
mod reconcile;
mod world;

use std::time::Duration;

use bowline_api::{Event, Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_api::{build, keys, name, node, volume};
use bowline_machinery::effect::Part;
use bowline_sim::stage::Cut;
use driver::NAME;
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;
use world::World;

/// Upstream's safety timer.
const SIX_MINUTES: Duration = Duration::from_secs(360);

async fn class(world: &World) {
    world.create(&build::class("fast", NAME).build()).await;
}

async fn claim(world: &World, name: &str) -> PersistentVolumeClaim {
    world.create(&build::claim(name).class("fast").build()).await
}

async fn bound(world: &World, claim: &PersistentVolumeClaim) -> bool {
    world.get(claim).await.is_some_and(|c| volume::claim_phase(&c) == volume::BOUND)
}

/// A pod that runs on a node and uses a claim.
async fn pod(world: &World, name: &str, claim: &str, node: &str) -> Pod {
    let mut pod = build::pod(name).mount(claim, "/data").build();
    pod.spec.as_mut().unwrap().node_name = Some(node.into());
    world.create(&pod).await
}

/// The name under which node status lists the claim's volume.
fn unique(claim: &PersistentVolumeClaim) -> String {
    name::unique_volume(NAME, &format!("id-pvc-{}", claim.uid()))
}

async fn reported(world: &World, node: &Node, volume: &str) -> bool {
    world.get(node).await.is_some_and(|n| node::volumes_attached(&n).contains(&volume))
}

async fn nothing_left(world: &World) {
    world.until("volumes are gone", async || world.list::<PersistentVolume>().await.is_empty()).await;
    let state = world.driver.state();
    assert!(state.volumes.is_empty(), "PROV-2: {:?}", state.volumes);
    assert!(state.broken.is_empty(), "{:?}", state.broken);
    assert!(state.published.is_empty(), "{:?}", state.published);
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_its_volume_and_leaves_nothing() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let begin = Instant::now();
    let data = claim(&world, "data").await;
    world.until("bound", async || bound(&world, &data).await).await;
    assert!(begin.elapsed() < Duration::from_millis(200), "pushed, not polled: {:?}", begin.elapsed());
    let made = world.list::<PersistentVolume>().await.remove(0);
    assert_eq!(made.name(), format!("pvc-{}", data.uid()));
    world.delete(&data).await;
    nothing_left(&world).await;
    let reasons = world.reasons().await;
    for reason in ["Provisioning", "ProvisioningSucceeded"] {
        assert!(reasons.iter().any(|r| r == reason), "{reason} missing: {reasons:?}");
    }
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_while_the_call_hangs_leaves_nothing() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    for _ in 0..3 {
        world.driver.fail("CreateVolume", true, Code::DeadlineExceeded);
    }
    let data = claim(&world, "data").await;
    world.until("made", async || !world.driver.state().volumes.is_empty()).await;
    world.delete(&data).await;
    world.until("claim gone", async || world.get(&data).await.is_none()).await;
    assert_eq!(world.driver.state().volumes.len(), 1, "made, and nobody knows yet");
    world.until("deleted", async || world.driver.state().volumes.is_empty()).await;
    nothing_left(&world).await;
    assert_eq!(world.driver.state().made.len(), 1, "PROV-1");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_rest_and_final_errors_are_told() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    world.driver.fail("CreateVolume", false, Code::InvalidArgument);
    let begin = Instant::now();
    let data = claim(&world, "data").await;
    world.until("bound", async || bound(&world, &data).await).await;
    assert!(begin.elapsed() >= Duration::from_secs(300), "{:?}", begin.elapsed());
    let failed =
        world.list::<Event>().await.into_iter().filter(|e| e.reason.as_deref() == Some("ProvisioningFailed"));
    let texts: Vec<String> = failed.filter_map(|e| e.message).collect();
    assert!(texts.iter().any(|t| t.contains("as told. Retries will be delayed.")), "{texts:?}");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn kept_volumes_stay() {
    let world = World::new().await;
    let process = world.start(None);
    world.create(&build::class("fast", NAME).reclaim("Retain").build()).await;
    let data = claim(&world, "data").await;
    world.until("bound", async || bound(&world, &data).await).await;
    world.delete(&data).await;
    let released = async || {
        let all = world.list::<PersistentVolume>().await;
        all.iter().any(|v| volume::volume_phase(v) == volume::RELEASED)
    };
    world.until("released", released).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.driver.state().volumes.len(), 1, "PROV-3");
    let kept = world.list::<PersistentVolume>().await.remove(0);
    assert!(!kept.has_finalizer(keys::PROVISIONER_FINALIZER), "others may delete the object");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn attach_report_and_detach_in_order() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let node = world.add_node("n1").await;
    let data = claim(&world, "data").await;
    let app = pod(&world, "app", "data", "n1").await;
    let volume = unique(&data);
    let begin = Instant::now();
    world.until("reported", async || reported(&world, &node, &volume).await).await;
    assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    let attachment = world.list::<VolumeAttachment>().await.remove(0);
    assert!(volume::attached(&attachment) && attachment.has_finalizer(&keys::attacher_finalizer(NAME)));
    assert_eq!(attachment.annotation(keys::ATTACHMENT_NODE_ID), Some("id-of-n1"));

    world.in_use(&node, &[&volume]).await;
    world.delete(&app).await;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert_eq!(world.driver.state().published.len(), 1, "ATT-3: the node may have it mounted");
    world.in_use(&node, &[]).await;
    world.until("detached", async || world.list::<VolumeAttachment>().await.is_empty()).await;
    assert!(!reported(&world, &node, &volume).await);
    world.delete(&data).await;
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_single_writer_moves_only_when_the_first_node_lets_go() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let (first, second) = (world.add_node("n1").await, world.add_node("n2").await);
    let data = claim(&world, "data").await;
    let volume = unique(&data);
    let old = pod(&world, "old", "data", "n1").await;
    world.until("attached", async || reported(&world, &first, &volume).await).await;
    world.in_use(&first, &[&volume]).await;
    let new = pod(&world, "new", "data", "n2").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waiting: Vec<Event> = world.list::<Event>().await;
    let waiting =
        waiting.iter().filter(|e| e.message.as_deref().is_some_and(|m| m.starts_with("Waiting for detach")));
    assert_eq!(waiting.map(|e| e.count.unwrap_or(1)).sum::<i32>(), 1, "told once");

    world.delete(&old).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!reported(&world, &second, &volume).await);
    world.in_use(&first, &[]).await;
    world.until("moved", async || reported(&world, &second, &volume).await).await;
    assert!(world.driver.state().broken.is_empty(), "{:?}", world.driver.state().broken);
    world.delete(&new).await;
    world.delete(&data).await;
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_loses_its_volumes_after_the_timer_or_at_once_when_tainted() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let node = world.add_node("n1").await;
    for (name, tainted) in [("slow", false), ("fast", true)] {
        let data = claim(&world, name).await;
        let volume = unique(&data);
        let app = pod(&world, name, name, "n1").await;
        world.until("attached", async || reported(&world, &node, &volume).await).await;
        world.in_use(&node, &[&volume]).await;
        world.ready(&node, false).await;
        world.delete(&app).await;
        let begin = Instant::now();
        if tainted {
            let taint = json!({"key": keys::TAINT_OUT_OF_SERVICE, "effect": "NoExecute"});
            world.patch(Part::Main, &node, json!({"spec": {"taints": [taint]}})).await;
        }
        world.until("detached", async || world.list::<VolumeAttachment>().await.is_empty()).await;
        assert_eq!(begin.elapsed() >= SIX_MINUTES, !tainted, "{name}: {:?}", begin.elapsed());
        world.ready(&node, true).await;
        world.delete(&data).await;
    }
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_driver_are_told_and_back_off() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let node = world.add_node("n1").await;
    for _ in 0..3 {
        world.driver.fail("ControllerPublishVolume", false, Code::Internal);
    }
    let data = claim(&world, "data").await;
    let begin = Instant::now();
    let app = pod(&world, "app", "data", "n1").await;
    world.until("attached", async || reported(&world, &node, &unique(&data)).await).await;
    assert!(begin.elapsed() >= Duration::from_secs(3), "1 s, 2 s and so on: {:?}", begin.elapsed());
    let reasons = world.reasons().await;
    for reason in ["FailedAttachVolume", "SuccessfulAttachVolume"] {
        assert!(reasons.iter().any(|r| r == reason), "{reason} missing: {reasons:?}");
    }
    world.driver.fail("ControllerUnpublishVolume", true, Code::DeadlineExceeded);
    world.driver.fail("DeleteVolume", true, Code::Unavailable);
    world.delete(&app).await;
    world.delete(&data).await;
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn volumes_of_one_node_share_the_writes_of_its_report() {
    const PODS: usize = 100;
    let world = World::new().await;
    class(&world).await;
    let node = world.add_node("n1").await;
    for n in 0..PODS {
        claim(&world, &format!("c{n}")).await;
        pod(&world, &format!("p{n}"), &format!("c{n}"), "n1").await;
    }
    let mut process = world.start(None);
    let all = async || world.get(&node).await.is_some_and(|n| node::volumes_attached(&n).len() == PODS);
    world.until("all are reported", all).await;
    let writes = process.count("patch status", "node n1");
    assert!(writes < PODS / 3, "{writes} writes for {PODS} volumes");
    process.end().await;
}

/// A whole life: claim, pod, and both gone again. Each step may be repeated by the next process.
async fn life(world: &World) {
    let node = match world.list::<Node>().await.pop() {
        Some(node) => node,
        None => world.add_node("n1").await,
    };
    let data = match world.list::<PersistentVolumeClaim>().await.pop() {
        Some(claim) => claim,
        None => claim(world, "data").await,
    };
    let app = match world.list::<Pod>().await.pop() {
        Some(pod) => pod,
        None => pod(world, "app", "data", "n1").await,
    };
    world.until("reported", async || reported(world, &node, &unique(&data)).await).await;
    world.delete(&app).await;
    world.delete(&data).await;
    nothing_left(world).await;
}

/// Goal: wherever the process dies, its successor brings every life to its end, with one volume and nothing left.
/// Method: break the connection at each write in turn, landed or not, and let a second process take over.
#[tokio::test(start_paused = true)]
async fn a_second_process_finishes_what_a_crash_cut_short() {
    let calm = {
        let world = World::new().await;
        let process = world.start(None);
        class(&world).await;
        life(&world).await;
        let writes = process.writes();
        process.end().await;
        writes
    };
    assert!(calm > 15, "a life has more writes than {calm}");
    for (at, landed) in (0..calm).flat_map(|at| [(at, true), (at, false)]) {
        let world = World::new().await;
        class(&world).await;
        let process = world.start(Some(Cut { at, landed }));
        let stuck = tokio::time::timeout(Duration::from_secs(30), life(&world)).await;
        process.crash().await;
        let process = world.start(None);
        if stuck.is_err() && !deleted(&world).await {
            life(&world).await;
        }
        nothing_left(&world).await;
        let state = world.driver.state().made.len();
        assert_eq!(state, 1, "PROV-1: cut at write {at}, landed: {landed}");
        process.end().await;
    }
}

/// Whether the user's part of a life is over.
async fn deleted(world: &World) -> bool {
    let claims = world.list::<PersistentVolumeClaim>().await;
    world.list::<Pod>().await.is_empty() && claims.iter().all(|claim| claim.deleting())
}
