//! Containers that cannot be started, waited for, ended or removed at the first try.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_api::{CSINode, Meta, build};
use bowline_host::fake::Program;
use bowline_machinery::client::in_process;
use http::Request;
use kube::client::Body;
use serde_json::json;
use tonic::Code;
use tower::Service;

use super::driver::Fault;
use super::objects::NODE;
use super::world::World;

/// The process has too many files open.
const EMFILE: i32 = 24;
const EBUSY: i32 = 16;

/// Upstream's kubelet goes on, too, but never sees another plugin.
#[tokio::test(start_paused = true)]
async fn drivers_come_and_go_after_the_watch_of_their_directory_ended() {
    let mut world = World::with_claim(5).await;
    let registered = |w: &World| {
        let known = w.ports.informers.of::<CSINode>().named(NODE);
        known.is_some_and(|node| !node.spec.drivers.is_empty())
    };
    world.until("registered", registered).await;
    world.fake.end_dir_watches();
    world.stop_driver().await;
    world.until("its end is seen", |w| !registered(w)).await;
    world.start_driver().await;
    world.until("registered again", registered).await;
}

/// NODE-3: what cannot be waited for may run; another one beside it would write to the same volume.
#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_waited_for_is_not_taken_for_ended() {
    let world = World::with_claim(5).await;
    for _ in 0..3 {
        world.fake.fail_next("wait", EMFILE);
    }
    let always = build::pod("p").shell("sleep 9").restart_policy("Always").mount("data", "/data").build();
    let uid = world.pod(always).await.uid().to_owned();
    world.until("running", |w| w.phase("p") == "Running").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.running(), [format!("{uid}/main/0")]);
    let status = world.live_pod("p").status.unwrap().container_statuses.unwrap()[0].clone();
    assert_eq!((status.restart_count, status.ready), (0, true));
    world.fake.exit(&format!("{uid}/main/0"), 1);
    world.until("its end is seen all the same", |w| w.running() == [format!("{uid}/main/1")]).await;
}

#[tokio::test(start_paused = true)]
async fn signals_that_could_not_be_sent_are_sent_again() {
    for passing in [0, 1] {
        let world = World::with_claim(5).await;
        let pod = build::pod("p").shell("sleep 9").mount("data", "/data").grace_seconds(5).build();
        let pod = world.pod(pod).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        world.fake.only_killed_ends(&world.running()[0]);
        // The request to end, or the kill after its grace.
        world.fake.fail_later("signal", passing, EMFILE);
        world.delete(&pod, None).await;
        world.until("gone", |w| w.phase("p") == "gone").await;
        assert_eq!(world.events("Killing"), ["Stopping container main"]);
        let failed = world.events("FailedKillPod");
        assert!(failed[0].starts_with("error killing pod: ") && failed.len() == 1, "{failed:?}");
        world.assert_clean().await;
    }
}

/// A status that cannot be written does not give a container more time than it has.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_does_not_delay_a_kill() {
    let mut world = World::new(5).await;
    let (server, cut) = (world.server.clone(), Arc::new(AtomicBool::new(false)));
    let silent = cut.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let lost = silent.load(Ordering::Relaxed) && request.uri().path().ends_with("/pods/p/status");
        let answer = server.clone().call(request);
        async move { if lost { std::future::pending().await } else { answer.await } }
    });
    world.start_kubelet_with(in_process(service)).await;
    world.fake.set_program("check", Program::default());
    let mut pod = build::pod("p").shell("sleep 9").grace_seconds(5).build();
    let probe = json!({"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1});
    pod.spec.as_mut().unwrap().containers[0].readiness_probe = serde_json::from_value(probe).unwrap();
    let pod = world.pod(pod).await;
    let ready = |w: &World| w.live_pod("p").status?.container_statuses?.first().map(|main| main.ready);
    world.until("ready", |w| ready(w) == Some(true)).await;
    world.fake.only_killed_ends(&world.running()[0]);
    world.delete(&pod, None).await;
    // The next thing that the status would tell of.
    world.fake.set_program("check", Program { code: 1, ..Program::default() });
    cut.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.running().len(), 1, "it has its time");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.running(), [""; 0]);
    cut.store(false, Ordering::Relaxed);
    world.until("gone", |w| w.phase("p") == "gone").await;
}

#[tokio::test(start_paused = true)]
async fn starts_and_removals_are_tried_again() {
    let world = World::with_claim(5).await;
    world.fake.fail_next("start", EMFILE);
    world.fake.fail_next("remove", EBUSY);
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.running(), [format!("{}/main/0", pod.uid())], "the same attempt");
    assert_eq!(world.events("Failed").len(), 1);
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.assert_clean().await;
    assert!(world.fake.containers().is_empty());
}

/// C9: whether attached or not, a pod says what it waits for, again and again.
#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_register_is_reported_with_back_off() {
    for attach_required in [false, true] {
        let mut world = World::new(5).await;
        world.start_kubelet().await;
        world.csi_driver(attach_required).await;
        world.bound_claim("data", false, "ReadWriteOnce").await;
        world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
        let text = "driver name test.csi.example not found in the list of registered CSI drivers";
        let said = |w: &World| w.events("FailedMount").iter().any(|event| event.ends_with(text));
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(!said(&world), "drivers take a moment to start");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(said(&world), "{:?}", world.events("FailedMount"));
        tokio::time::sleep(Duration::from_secs(600)).await;
        let times = world.event_count("FailedMount", text);
        assert!((4..=12).contains(&times), "told {times} times in ten minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_not_attached_is_reported() {
    let mut world = World::new(5).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(true).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let told = world.events("FailedMount");
    let text = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]: volume kubernetes.io/csi/test.csi.example^handle-data is not yet in node's status";
    assert_eq!(told, [text]);
}

/// C10: a person has unmounted the staging path, or detached the device.
#[tokio::test(start_paused = true)]
async fn a_volume_that_the_driver_no_longer_finds_staged_is_staged_again() {
    for code in [Code::FailedPrecondition, Code::NotFound] {
        let world = World::with_claim(5).await;
        world.pod(build::pod("one").shell("sleep 9").mount("data", "/data").build()).await;
        world.until("running", |w| w.phase("one") == "Running").await;
        world.driver.plan("publish", Fault::Refuse(code));
        world.pod(build::pod("two").shell("sleep 9").mount("data", "/data").build()).await;
        world.until("running, too", |w| w.phase("two") == "Running").await;
        let calls = world.driver.calls();
        assert_eq!(calls.iter().filter(|call| call.starts_with("stage")).count(), 2, "{calls:?}");
    }
}
