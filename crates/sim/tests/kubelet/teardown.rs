//! What cannot be removed, unmounted or written down on the way out holds up as little as possible, and is told.

use std::task::{Context, Poll};
use std::time::Duration;

use bowline_api::{Event, Meta, Pod, Secret, build};
use bowline_apiserver::Server;
use bowline_machinery::client::in_process;
use futures::future::BoxFuture;
use http::Request;
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;
use tower::Service;

use super::driver::Fault;
use super::world::World;

const EBUSY: i32 = 16;
const ENOSPC: i32 = 28;
/// More failures than any test lives to see.
const MANY: usize = 1_000;

fn pod() -> Pod {
    build::pod("p").shell("sleep 9").mount("data", "/data").build()
}

async fn running(seed: u64) -> (World, Pod) {
    let world = World::with_claim(seed).await;
    let pod = world.pod(pod()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    (world, pod)
}

/// A process that hangs in the kernel keeps the control group of its container.
#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_removed_is_reported_and_keeps_no_pod() {
    let (world, pod) = running(51).await;
    (0..MANY).for_each(|_| world.fake.fail_next("remove", EBUSY));
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("told", |w| !w.events("FailedRemoveContainer").is_empty()).await;
    assert_eq!(world.fake.containers().len(), 1, "it is still there");
    world.fake.fail_no_more();
    world.until("removed", |w| w.fake.containers().is_empty()).await;
    world.assert_clean().await;
}

/// That a container is ended by us cannot be written down, and neither can its record be removed.
#[tokio::test(start_paused = true)]
async fn a_full_disk_does_not_keep_containers_from_being_ended() {
    let (world, _) = running(53).await;
    for call in ["mark_evicted", "remove"] {
        (0..MANY).for_each(|_| world.fake.fail_next(call, ENOSPC));
    }
    assert!(world.drain().await, "the machine is clean in time");
    assert!(world.running().is_empty() && world.driver.is_idle() && world.fake.mounts().is_empty());
}

/// Ctrl-C comes while a volume of millions of files is given to the pod's group.
#[tokio::test(start_paused = true)]
async fn a_walk_ends_when_the_node_agent_stops() {
    for drained in [true, false] {
        let mut world = World::with_claim(54).await;
        world.fake.set_walk_takes(Duration::from_secs(86_400));
        let mut pod = pod();
        pod.spec.as_mut().unwrap().security_context =
            Some(serde_json::from_value(json!({"fsGroup": 2000})).unwrap());
        world.pod(pod).await;
        world.until("published", |w| w.driver.calls().iter().any(|call| call.starts_with("publish"))).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let begun = Instant::now();
        if drained {
            assert!(world.drain().await, "the machine is clean in time");
            assert!(world.driver.is_idle() && world.fake.mounts().is_empty());
        }
        world.stop_kubelet().await;
        assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
    }
}

/// An API server whose secrets take a minute.
#[derive(Clone)]
struct SlowSecrets(Server);

impl Service<Request<Body>> for SlowSecrets {
    type Response = <Server as Service<Request<Body>>>::Response;
    type Error = <Server as Service<Request<Body>>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let slow = request.uri().path().ends_with("/secrets/key");
        let answer = self.0.call(request);
        Box::pin(async move {
            if slow {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            answer.await
        })
    }
}

/// NODE-3: a pod does not leave the API while a publication of it is on the way.
#[tokio::test(start_paused = true)]
async fn a_publication_does_not_overtake_the_removal_of_its_pod() {
    for block in [false, true] {
        let mut world = World::new(55).await;
        let slow = in_process(SlowSecrets(world.server.clone()));
        world.start_kubelet_with(slow).await;
        world.start_driver().await;
        world.csi_driver(false).await;
        let key = json!({"metadata": {"name": "key", "namespace": "default"}});
        world.effects().create::<Secret>(&serde_json::from_value(key).unwrap()).await.unwrap();
        let source = json!({"nodePublishSecretRef": {"namespace": "default", "name": "key"}});
        world.bound_claim_with("data", block, "ReadWriteOnce", source).await;
        let pod = build::pod("p").shell("sleep 9");
        let pod = if block { pod.device("data", "/dev/data") } else { pod.mount("data", "/data") };
        let pod = world.pod(pod.build()).await;
        world.until("staged", |w| !w.driver.is_idle()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.delete(&pod, None).await;
        world.until("gone", |w| w.phase("p") == "gone").await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        let calls = world.driver.calls();
        assert!(!calls.iter().any(|call| call.starts_with("publish")), "block: {block}, {calls:?}");
        world.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failed_unmounts_are_told_with_the_driver_s_reason() {
    let (world, pod) = running(56).await;
    for call in ["unpublish", "unstage"] {
        // The pauses of both add up, since they are failures of one volume.
        (0..2).for_each(|_| world.driver.plan(call, Fault::Refuse(Code::Internal)));
    }
    world.delete(&pod, None).await;
    world.until("told", |w| !w.events("FailedUnmount").is_empty()).await;
    let told = world.events("FailedUnmount");
    let path = format!("/var/lib/kubelet/pods/{}/volumes/kubernetes.io~csi/pv-data/mount", pod.uid());
    assert!(told[0].starts_with("UnmountVolume.TearDown failed for volume \"pv-data\" : "), "{told:?}");
    assert!(told[0].contains("as planned"), "{told:?}");
    assert!(told[0].ends_with(&format!("`findmnt -R {path}` shows it")), "{told:?}");
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.until("idle", |w| w.driver.is_idle()).await;
    let events = world.ports.informers.of::<Event>().list();
    let mut of_node = events.iter().filter(|e| e.involved_object.kind.as_deref() == Some("Node"));
    let text = of_node.find_map(|e| e.message.clone().filter(|text| text.contains("UnmountDevice"))).unwrap();
    assert!(text.contains("as planned") && text.contains("`findmnt -R "), "{text}");
}

/// The driver does not come back: its pod says what it waits for.
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_missing_for_the_unmount_is_reported() {
    let (mut world, pod) = running(57).await;
    world.stop_driver().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.delete(&pod, None).await;
    let text = "driver name test.csi.example not found in the list of registered CSI drivers";
    let told = |w: &World| w.events("FailedUnmount").iter().any(|event| event.contains(text));
    world.until("told", told).await;
    world.start_driver().await;
    world.until("gone", |w| w.phase("p") == "gone").await;
}
