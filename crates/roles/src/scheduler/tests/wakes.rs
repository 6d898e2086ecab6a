//! Which pods a change wakes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_api::{
    CSIDriver, CSINode, CSIStorageCapacity, ObjectKey, PersistentVolumeClaim, Pod, StorageClass,
    VolumeAttachment,
};
use bowline_host::fake;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Change, Context, Journal, Object, Ports, Queue, Role, Verdict, client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::role::Scheduler;

fn object<K: Object>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn named(name: &str, version: u64) -> Value {
    json!({"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string()})
}

/// A scheduler with one refused pod for each of two drivers, `pod-a` of `a` and `pod-b` of `b`.
async fn scheduler() -> (Scheduler, Queue<ObjectKey>) {
    let (host, _) = fake::host(1);
    let ports = Ports::new(client::nowhere(), host, Journal::default(), CancellationToken::new());
    let queue = Queue::new(Backoff::VOLUME);
    let (effects, recorder) = (ports.effects("test"), ports.recorder("test"));
    let context = Context { ports, effects, recorder, queue: queue.clone() };
    let role = Scheduler::start(context, ()).await.unwrap();
    for (version, driver) in [(1, "a"), (2, "b")] {
        let class = format!("class-{driver}");
        let metadata = json!({"name": class, "uid": class, "resourceVersion": version.to_string()});
        role.classes.note(object::<StorageClass>(json!({"metadata": metadata, "provisioner": driver})));
        let claim = named(&format!("claim-{driver}"), version);
        role.claims.note(object::<PersistentVolumeClaim>(
            json!({"metadata": claim, "spec": {"storageClassName": class}}),
        ));
        let volume =
            json!({"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{driver}")}});
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        role.pods.note(object::<Pod>(json!({
            "metadata": named(&format!("pod-{driver}"), version),
            "spec": {"containers": [], "volumes": [volume]},
            "status": {"conditions": [condition]},
        })));
    }
    (role, queue)
}

/// Keys that were woken since the last question.
async fn woken(queue: &Queue<ObjectKey>) -> Vec<String> {
    let (stop, seen) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let (log, worker, ended) = (seen.clone(), queue.clone(), stop.clone());
    let work = move |key: ObjectKey| {
        let log = log.clone();
        async move {
            log.lock().unwrap().push(key.name);
            Verdict::Done
        }
    };
    let running = tokio::spawn(async move { worker.run(1, ended, work).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    stop.cancel();
    running.await.unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn changed<K: Object>(old: Option<Value>, new: Option<Value>) -> Change<K> {
    Change { old: old.map(object).map(Arc::new), new: new.map(object).map(Arc::new) }
}

/// B18: thousands of pods may wait for something else.
#[tokio::test(start_paused = true)]
async fn only_pods_that_a_change_can_help_are_woken() {
    let (role, queue) = scheduler().await;
    let csi_node = |count: u32, id: &str| {
        let drivers = json!([
            {"name": "a", "nodeID": id, "topologyKeys": null, "allocatable": {"count": count}},
            {"name": "b", "nodeID": id, "topologyKeys": null, "allocatable": {"count": 7}},
        ]);
        json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
    };
    role.csi_node_changed(&changed::<CSINode>(Some(csi_node(1, "x")), Some(csi_node(2, "x"))), &queue);
    assert_eq!(woken(&queue).await, ["pod-a"], "a limit");
    role.csi_node_changed(&changed::<CSINode>(Some(csi_node(1, "x")), Some(csi_node(1, "y"))), &queue);
    assert_eq!(woken(&queue).await, [""; 0], "limits as before");
    role.csi_node_changed(&changed::<CSINode>(None, Some(csi_node(1, "x"))), &queue);
    assert_eq!(woken(&queue).await, ["pod-a", "pod-b"], "a new node");

    let driver = |publishes: bool| json!({"metadata": {"name": "b"}, "spec": {"storageCapacity": publishes}});
    role.driver_changed(&changed::<CSIDriver>(Some(driver(false)), Some(driver(true))), &queue);
    assert_eq!(woken(&queue).await, ["pod-b"], "a driver");
    role.driver_changed(&changed::<CSIDriver>(Some(driver(true)), Some(driver(true))), &queue);
    assert_eq!(woken(&queue).await, [""; 0], "a driver, nothing that is looked at");

    let capacity = json!({"metadata": named("c", 1), "storageClassName": "class-a"});
    role.capacity_changed(&changed::<CSIStorageCapacity>(None, Some(capacity)), &queue);
    assert_eq!(woken(&queue).await, ["pod-a"], "room for a class");

    let source = json!({"persistentVolumeName": "pv"});
    let attachment =
        json!({"metadata": {"name": "x"}, "spec": {"attacher": "b", "nodeName": "n", "source": source}});
    role.attachment_changed(
        &changed::<VolumeAttachment>(Some(attachment.clone()), Some(attachment.clone())),
        &queue,
    );
    assert_eq!(woken(&queue).await, [""; 0], "an attachment stays");
    role.attachment_changed(&changed::<VolumeAttachment>(Some(attachment), None), &queue);
    assert_eq!(woken(&queue).await, ["pod-b"], "an attachment goes");
}
