//! Volumes that grow on this node: what the driver is asked, and what the claim says. The tests write what csi-resizer would.

use std::time::Duration;

use bowline_api::{Meta, PersistentVolume, PersistentVolumeClaim, build, expansion, keys, volume};
use bowline_machinery::effect::Part;
use serde_json::{Value, json};
use tonic::Code;

use super::driver::Fault;
use super::world::World;

const GI: i64 = 1 << 30;

/// A driver that expands, and a claim `data` that was promised what its volume has.
async fn world(seed: u64, block: bool, access_mode: &str) -> World {
    let mut world = World::new(seed).await;
    world.driver.set_expands();
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(false).await;
    let secret = json!({"metadata": {"name": "key", "namespace": "default"}, "stringData": {"a": "b"}});
    world.effects().create::<bowline_api::Secret>(&serde_json::from_value(secret).unwrap()).await.unwrap();
    let source = json!({"nodeExpandSecretRef": {"name": "key", "namespace": "default"}});
    world.bound_claim_with("data", block, access_mode, source).await;
    world.write_claim(json!({"capacity": {"storage": "1Gi"}})).await;
    world
}

impl World {
    async fn claim(&self) -> PersistentVolumeClaim {
        self.fresh_ports().await.effects("test").get_live("default", "data").await.unwrap().unwrap()
    }

    async fn write_claim(&self, status: Value) {
        let claim = self.claim().await;
        self.effects().patch(Part::Status, &claim, json!({"status": status})).await.unwrap();
    }

    /// What csi-resizer leaves when the controller's part is done.
    async fn controller_expands(&self) {
        let pv: PersistentVolume = self.effects().get_live("", "pv-data").await.unwrap().unwrap();
        let capacity = json!({"spec": {"capacity": {"storage": "2Gi"}}});
        self.effects().patch(Part::Main, &pv, capacity).await.unwrap();
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        self.write_claim(json!({
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": expansion::NODE_RESIZE_PENDING},
            "conditions": [
                condition(expansion::FILE_SYSTEM_RESIZE_PENDING), condition("Other"), condition(expansion::RESIZING),
            ],
        }))
        .await;
    }

    /// Waits until the claim is as wanted, at most two minutes and a half of the world's time.
    async fn until_claim(&self, what: &str, holds: impl Fn(&PersistentVolumeClaim) -> bool) {
        for _ in 0..1500 {
            if holds(&self.claim().await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not reached: {what}: {:#?}", self.claim().await.status);
    }
}

fn promised(claim: &PersistentVolumeClaim) -> i64 {
    volume::promised_bytes(claim)
}

fn conditions(claim: &PersistentVolumeClaim) -> Vec<&str> {
    claim.status.iter().flat_map(|s| s.conditions.iter().flatten()).map(|c| c.type_.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_mounted_volume_grows_and_its_claim_says_so() {
    for block in [false, true] {
        let world = world(61, block, "ReadWriteOnce").await;
        let pod = build::pod("p").shell("sleep 9");
        let pod = if block { pod.device("data", "/dev/d") } else { pod.mount("data", "/data") };
        let pod = world.pod(pod.build()).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        world.controller_expands().await;
        world.until_claim("2Gi", |claim| promised(claim) == 2 * GI).await;
        let claim = world.claim().await;
        assert_eq!((expansion::resize_status(&claim), conditions(&claim)), ("", vec!["Other"]));
        let [(path, bytes, secrets)] = &world.driver.expanded()[..] else {
            panic!("{:?}", world.driver.calls())
        };
        let uid = pod.uid();
        let expected = match block {
            false => format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~csi/pv-data/mount"),
            true => format!("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv-data/{uid}"),
        };
        assert_eq!((path, *bytes, *secrets), (&expected, 2 * GI, 1));
        let text = "MountVolume.NodeExpandVolume succeeded for volume \"pv-data\" node-1";
        world.until("told", |w| w.events("FileSystemResizeSuccessful") == [text, text]).await;
        assert_eq!(*world.refused.lock().unwrap(), [""; 0], "within a node's rights");
        world.delete(&pod, None).await;
        world.until("gone", |w| w.phase("p") == "gone").await;
    }
}

/// As upstream: a change of the pod reads its claims again, so nobody has to wait for the next minute.
#[tokio::test(start_paused = true)]
async fn an_annotation_of_the_pod_makes_its_node_look_at_once() {
    let world = world(62, false, "ReadWriteOnce").await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.controller_expands().await;
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    world.effects().patch(Part::Main, &pod, touched).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(promised(&world.claim().await), 2 * GI);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_grew_while_no_pod_had_it_is_expanded_before_it_is_used() {
    let world = world(63, false, "ReadWriteOnce").await;
    world.controller_expands().await;
    world.driver.plan("expand", Fault::Refuse(Code::Internal));
    world.driver.plan("expand", Fault::Lose(Code::DeadlineExceeded));
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("told", |w| !w.events("FailedMount").is_empty()).await;
    let text = "MountVolume.Setup failed while expanding volume for volume \"pv-data\" : rpc error: code = Internal desc = as planned";
    assert_eq!(world.events("FailedMount"), [text]);
    assert_ne!(world.phase("p"), "Running", "not before it has its size");
    world.until_claim("an error", |c| conditions(c).contains(&expansion::NODE_RESIZE_ERROR)).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let claim = world.claim().await;
    assert_eq!((promised(&claim), conditions(&claim)), (2 * GI, vec!["Other"]));
    let calls = world.driver.calls();
    assert_eq!(calls.iter().filter(|call| call.starts_with("expand")).count(), 3, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn an_infeasible_size_is_left_to_the_controller() {
    for code in [Code::InvalidArgument, Code::OutOfRange, Code::NotFound] {
        let world = world(64, false, "ReadWriteOnce").await;
        world.driver.plan("expand", Fault::Refuse(code));
        world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        world.controller_expands().await;
        world
            .until_claim("infeasible", |c| expansion::resize_status(c) == expansion::NODE_RESIZE_INFEASIBLE)
            .await;
        let claim = world.claim().await;
        let all = claim.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let error = all.iter().find(|c| c.type_ == expansion::NODE_RESIZE_ERROR).unwrap();
        let text = format!("failed to expand pvc with rpc error: code = {code:?} desc = as planned");
        assert_eq!((error.message.as_deref(), promised(&claim)), (Some(text.as_str()), GI));
        assert_eq!(world.events("VolumeResizeFailed").len(), 1);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(world.driver.expanded().len(), 0, "no further call");
        world
            .write_claim(json!({"allocatedResourceStatuses": {"storage": expansion::NODE_RESIZE_PENDING}}))
            .await;
        world.until_claim("2Gi", |claim| promised(claim) == 2 * GI).await;
    }
}

/// Reference 6.4: FailedPrecondition is not repeated while the volume is mounted.
#[tokio::test(start_paused = true)]
async fn edge_9_3_15_a_volume_that_cannot_grow_in_use_grows_at_its_next_mount() {
    let world = world(65, false, "ReadWriteOnce").await;
    world.driver.plan("expand", Fault::Refuse(Code::FailedPrecondition));
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.controller_expands().await;
    world.until_claim("an error", |c| conditions(c).contains(&expansion::NODE_RESIZE_ERROR)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.driver.expanded().len(), 0);
    assert_eq!(expansion::resize_status(&world.claim().await), expansion::NODE_RESIZE_IN_PROGRESS);
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    world.pod(build::pod("q").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("q") == "Running").await;
    assert_eq!(promised(&world.claim().await), 2 * GI);
}

/// RES-1.
#[tokio::test(start_paused = true)]
async fn a_claim_is_never_promised_more_than_the_driver_confirmed() {
    let world = world(66, false, "ReadWriteOnce").await;
    world.driver.set_confirms(GI);
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.controller_expands().await;
    world.until_claim("an error", |c| conditions(c).contains(&expansion::NODE_RESIZE_ERROR)).await;
    assert_eq!(promised(&world.claim().await), GI);
    world.driver.set_confirms(2 * GI);
    world.until_claim("2Gi", |claim| promised(claim) == 2 * GI).await;
}

/// Dying after the call and before the status is written repeats the call.
#[tokio::test(start_paused = true)]
async fn an_expansion_survives_a_restart_of_the_kubelet() {
    let mut world = world(67, false, "ReadWriteOnce").await;
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.driver.plan("expand", Fault::Lose(Code::Unavailable));
    world.controller_expands().await;
    world.until_claim("begun", |c| expansion::resize_status(c) == expansion::NODE_RESIZE_IN_PROGRESS).await;
    world.until("called", |w| w.driver.expanded().len() == 1).await;
    world.stop_kubelet().await;
    world.driver.forget_calls_in_flight();
    world.start_kubelet().await;
    world.until_claim("2Gi", |claim| promised(claim) == 2 * GI).await;
    assert!(world.driver.expanded().len() >= 2);
    assert_eq!(world.running().len(), 1, "NODE-3");
}

#[tokio::test(start_paused = true)]
async fn edge_9_3_15_a_further_node_of_a_shared_volume_expands_and_writes_nothing() {
    for (annotated, calls) in [(false, 1), (true, 0)] {
        let world = world(68, false, "ReadWriteMany").await;
        world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
        world.until("running", |w| w.phase("p") == "Running").await;
        let pv: PersistentVolume = world.effects().get_live("", "pv-data").await.unwrap().unwrap();
        let capacity = json!({"spec": {"capacity": {"storage": "2Gi"}}});
        world.effects().patch(Part::Main, &pv, capacity).await.unwrap();
        if annotated {
            let key = keys::NODE_EXPANSION_NOT_REQUIRED;
            let annotation = json!({"metadata": {"annotations": {key: "true"}}});
            world.effects().patch(Part::Main, &world.claim().await, annotation).await.unwrap();
        }
        let done = json!({"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}});
        world.write_claim(done).await;
        let version = world.claim().await.version();
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(world.driver.expanded().len(), calls, "annotated: {annotated}");
        assert_eq!(world.claim().await.version(), version);
    }
}
