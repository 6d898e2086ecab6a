//! What a restart of the node agent, or its orderly stop, leaves and finds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_api::{Meta, Node, build, node};
use bowline_machinery::client::in_process;
use bowline_sim::stage::{Line, Listed};
use http::{Method, Request};
use kube::client::Body;
use serde_json::json;

use super::world::World;

const EIO: i32 = 5;

/// NODE-3.
#[tokio::test(start_paused = true)]
async fn a_restart_disturbs_no_pod_and_forgets_no_mount() {
    let mut world = World::with_claim(11).await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let before = world.running();
    world.stop_kubelet().await;
    world.stop_driver().await;
    assert_eq!(world.running(), before, "containers outlive the process");

    world.start_kubelet().await;
    world.start_driver().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.running(), before, "adopted, not started again");
    let calls = world.driver.calls();
    assert!(!calls.iter().any(|c| c.starts_with("un")), "{calls:?}");
    assert_eq!(calls.iter().filter(|c| c.starts_with("publish")).count(), 2, "made certain by a repeat");

    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.assert_clean().await;
}

/// B2: the API server that answers after the restart has not heard of the pod yet.
#[tokio::test(start_paused = true)]
async fn a_restart_beside_a_lagging_api_server_ends_no_pod() {
    let mut world = World::with_claim(11).await;
    let before =
        json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []});
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let running = world.running();
    world.stop_kubelet().await;
    let line =
        Line::to(&world.server).lagging(Listed { path: "/api/v1/pods", body: before.to_string().into() });
    world.start_kubelet_with(in_process(line)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.running(), running);
    let calls = world.driver.calls();
    assert!(!calls.iter().any(|call| call.starts_with("un")), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_while_nobody_was_there_is_taken_down() {
    let mut world = World::with_claim(11).await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.stop_kubelet().await;
    world.ports = world.fresh_ports().await;
    world.delete(&pod, Some(0)).await;
    world.start_kubelet().await;
    world.until("idle", |w| w.driver.is_idle() && w.fake.containers().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn an_orderly_stop_leaves_the_machine_clean_and_the_next_start_goes_on() {
    let mut world = World::with_claim(11).await;
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    assert!(world.kubelet.as_ref().unwrap().drain(Duration::from_secs(30)).await);
    assert!(world.running().is_empty() && world.driver.is_idle() && world.fake.mounts().is_empty());
    assert_eq!(world.phase("p"), "Running", "the API keeps its objects");
    world.stop_kubelet().await;

    world.start_kubelet().await;
    world.until("ready", |w| w.node().is_some_and(|n| node::ready(&n))).await;
    world.until("runs again, although it is `Never`", |w| !w.running().is_empty()).await;
    let uid = world.live_pod("p").uid().to_owned();
    assert_eq!(world.running(), [format!("{uid}/main/1")]);
    world
        .until("status follows", |w| {
            let status = w.live_pod("p").status.unwrap();
            status.container_statuses.unwrap()[0].restart_count == 1
        })
        .await;
}

/// A node that is not run any more must not count as ready because one request was lost at its end.
#[tokio::test(start_paused = true)]
async fn the_last_report_is_repeated_until_it_is_taken() {
    let mut world = World::with_claim(11).await;
    world.stop_kubelet().await;
    let to_fail = Arc::new(AtomicUsize::new(0));
    let left = to_fail.clone();
    let fails = move |request: &Request<Body>| {
        let report = request.method() == Method::PATCH && request.uri().path().ends_with("/status");
        report && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    };
    let line = Line::to(&world.server).failing(fails);
    world.start_kubelet_with(in_process(line)).await;
    world.until("ready", |w| w.node().is_some_and(|n| node::ready(&n))).await;
    to_fail.store(2, Ordering::SeqCst);
    world.stop_kubelet().await;
    assert_eq!(to_fail.load(Ordering::SeqCst), 0, "the report was tried again");
    world.ports = world.fresh_ports().await;
    assert!(!node::ready(&world.node().unwrap()));
}

/// That it ended the containers itself does not go with the process.
#[tokio::test(start_paused = true)]
async fn who_is_killed_while_stopping_is_not_taken_for_the_workload() {
    let mut world = World::with_claim(11).await;
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    for _ in 0..20 {
        world.fake.fail_next("remove", EIO);
    }
    assert!(world.drain().await, "a record that stays holds up nothing");
    assert!(world.running().is_empty() && !world.fake.containers().is_empty(), "ended, and not removed");
    world.stop_kubelet().await;
    world.fake.fail_no_more();

    world.start_kubelet().await;
    world.until("runs again, although it is `Never`", |w| !w.running().is_empty()).await;
    assert_eq!(world.phase("p"), "Running");
    let uid = world.live_pod("p").uid().to_owned();
    assert_eq!(world.running(), [format!("{uid}/main/1")]);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_begun_is_carried_through() {
    let mut world = World::with_claim(11).await;
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.fake.only_killed_ends(&world.running()[0]);
    assert!(!world.kubelet.as_ref().unwrap().drain(Duration::from_secs(2)).await);
    let before = world.running();
    assert_eq!(before.len(), 1, "it takes its time");
    world.stop_kubelet().await;

    world.start_kubelet().await;
    let uid = world.live_pod("p").uid().to_owned();
    world.until("runs anew", |w| w.running() == [format!("{uid}/main/1")]).await;
    assert_eq!(world.phase("p"), "Running");
}

/// What an init container put into a volume in memory went with the power.
#[tokio::test(start_paused = true)]
async fn a_power_cut_starts_a_pod_from_its_init_containers() {
    let mut world = World::with_claim(11).await;
    world.pod(build::pod("p").shell("run").init_shell("prepare").restart_policy("Always").build()).await;
    let uid = {
        world.until("prepares", |w| w.running().len() == 1).await;
        world.live_pod("p").uid().to_owned()
    };
    world.fake.exit(&format!("{uid}/init/0"), 0);
    world.until("runs", |w| w.running() == [format!("{uid}/main/0")]).await;
    world.until("status follows", |w| w.phase("p") == "Running").await;
    world.stop_kubelet().await;
    world.stop_driver().await;
    world.fake.reboot();

    world.start_driver().await;
    world.start_kubelet().await;
    world.until("prepares again", |w| w.running() == [format!("{uid}/init/1")]).await;
    world.until("and says so", |w| w.phase("p") == "Pending").await;
    world.fake.exit(&format!("{uid}/init/1"), 0);
    world.until("runs again", |w| w.running() == [format!("{uid}/main/1")]).await;
    world.until("status follows", |w| w.phase("p") == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn containers_end_and_start_again_by_policy() {
    let world = World::with_claim(11).await;
    world.pod(build::pod("never").shell("false").build()).await;
    world.pod(build::pod("always").shell("true").restart_policy("Always").mount("data", "/d").build()).await;
    world.until("both run", |w| w.running().len() == 2).await;
    for id in world.running() {
        world.fake.exit(&id, if world.live_pod("never").uid() == &id[..36] { 3 } else { 0 });
    }
    world.until("failed", |w| w.phase("never") == "Failed").await;
    let uid = world.live_pod("always").uid().to_owned();
    world.until("restarted at once", |w| w.running() == [format!("{uid}/main/1")]).await;
    world.fake.exit(&format!("{uid}/main/1"), 1);
    let waiting = |w: &World| {
        let status = w.live_pod("always").status.unwrap().container_statuses.unwrap()[0].clone();
        status.state.unwrap().waiting.is_some_and(|s| s.reason.as_deref() == Some("CrashLoopBackOff"))
    };
    world.until("backs off", waiting).await;
    let text = format!("Back-off restarting failed container main in pod always_default({uid})");
    world.until("and says so", |w| w.events("BackOff") == [text.clone()]).await;
    world.until("and restarts", |w| w.running() == [format!("{uid}/main/2")]).await;
    world.until("keeps only the last record", |w| w.fake.containers().len() == 2).await;
}

/// ATT-3: while the object of a node that was deleted by hand is new, nothing may be detached that is mounted.
#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_has_its_volumes_in_use_from_the_start() {
    let mut world = World::new(91).await;
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(true).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.attach_all(&["data"]).await;
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let old = world.node().unwrap();
    let used = node::volumes_in_use(&old).to_vec();
    assert_eq!(used.len(), 1, "{used:?}");
    let (versions, uid) = (Arc::new(Mutex::new(Vec::new())), old.uid().to_owned());
    let seen = versions.clone();
    world.ports.informers.of::<Node>().on_change(move |change| {
        if let Some(new) = change.new.as_ref().filter(|new| new.uid() != uid) {
            seen.lock().unwrap().push(node::volumes_in_use(new).to_vec());
        }
    });
    world.effects().delete(&old, None).await.unwrap();
    world.until("registered again", |_| versions.lock().unwrap().len() > 1).await;
    assert!(versions.lock().unwrap().iter().all(|list| *list == used), "{:?}", versions.lock().unwrap());
}
