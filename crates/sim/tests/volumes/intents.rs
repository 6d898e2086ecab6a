//! CreateVolume calls without an answer: the successor finishes or undoes them from what is stored (PROV-1, PROV-2).

use std::time::Duration;

use bowline_api::{Event, Lease, Meta, PersistentVolume, PersistentVolumeClaim, StorageClass, build, volume};
use http::Method;
use tonic::Code;

use super::driver::NAME;
use super::world::World;
use super::{bound, claim, class, nothing_left};

/// A claim whose CreateVolume took effect and is never answered.
async fn unanswered(world: &World) -> PersistentVolumeClaim {
    class(world).await;
    for _ in 0..1_000 {
        world.driver.fail("CreateVolume", true, Code::DeadlineExceeded);
    }
    let data = claim(world, "data").await;
    world.until("made", async || !world.driver.state().volumes.is_empty()).await;
    data
}

async fn delete_class(world: &World) {
    world.delete(&world.list::<StorageClass>().await.remove(0)).await;
}

/// Intents that are stored.
async fn intents(world: &World) -> usize {
    world.list::<Lease>().await.len()
}

async fn nothing_stored(world: &World) {
    world.until("the intent is gone", async || intents(world).await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_successor_undoes_an_unanswered_call_whose_claim_and_class_are_gone() {
    let world = World::new().await;
    let process = world.start(None);
    let data = unanswered(&world).await;
    process.crash().await;
    world.driver.state().faults.clear();
    world.delete(&data).await;
    // The protection of the claim ends with the controllers of the next process.
    delete_class(&world).await;
    let process = world.start(None);
    world.until("deleted", async || world.driver.state().volumes.is_empty()).await;
    nothing_left(&world).await;
    nothing_stored(&world).await;
    let made = world.driver.state().made.len();
    assert_eq!(made, 1, "PROV-1: {:?}", world.driver.state().calls);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_call_is_finished_without_its_class() {
    let world = World::new().await;
    let process = world.start(None);
    let data = unanswered(&world).await;
    delete_class(&world).await;
    world.driver.state().faults.clear();
    world.until("bound", async || bound(&world, &data).await).await;
    nothing_stored(&world).await;
    world.delete(&data).await;
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_successor_repeats_what_was_sent_although_the_class_was_replaced() {
    let world = World::new().await;
    let process = world.start(None);
    let data = unanswered(&world).await;
    process.crash().await;
    world.driver.state().faults.clear();
    delete_class(&world).await;
    world.create(&build::class("fast", NAME).reclaim("Retain").parameter("tier", "gold").build()).await;
    let process = world.start(None);
    world.until("bound", async || bound(&world, &data).await).await;
    let sent = world.driver.state().parameters.clone();
    assert!(sent.iter().all(|parameters| parameters.is_empty()), "PROV-1: identical repeats: {sent:?}");
    world.delete(&data).await;
    nothing_left(&world).await;
    nothing_stored(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_leaves_no_intent_when_its_claim_goes() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    for _ in 0..1_000 {
        world.driver.fail("CreateVolume", false, Code::Internal);
    }
    let data = claim(&world, "data").await;
    world.until("refused", async || world.driver.state().calls.len() > 2).await;
    world.delete(&data).await;
    nothing_stored(&world).await;
    let calls = world.driver.state().calls.len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.driver.state().calls.len(), calls, "nothing is asked for a claim that is gone");
    process.end().await;
}

/// The backend was away when the call was repeated: its refusal says nothing about what the first call made.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_an_unanswered_call_does_not_leave_its_volume() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    world.driver.fail("CreateVolume", true, Code::DeadlineExceeded);
    for _ in 0..1_000 {
        world.driver.fail("CreateVolume", false, Code::Internal);
    }
    let data = claim(&world, "data").await;
    world.until("refused", async || world.driver.state().calls.len() > 2).await;
    world.delete(&data).await;
    world.until("claim gone", async || world.get(&data).await.is_none()).await;
    let calls = world.driver.state().calls.len();
    world.until("refused again", async || world.driver.state().calls.len() > calls).await;
    world.driver.state().faults.clear();
    world.until("deleted", async || world.driver.state().volumes.is_empty()).await;
    nothing_left(&world).await;
    nothing_stored(&world).await;
    process.end().await;
}

/// A successor cannot tell a call that was refused, or never sent, from one without an answer: only the last is stored.
#[tokio::test(start_paused = true)]
async fn only_calls_without_an_answer_are_stored() {
    let world = World::new().await;
    let process = world.start(None);
    world.create(&build::class("fast", NAME).reclaim("Retain").build()).await;
    let secret = build::class("secret", NAME)
        .parameter("csi.storage.k8s.io/provisioner-secret-name", "missing")
        .parameter("csi.storage.k8s.io/provisioner-secret-namespace", "default");
    world.create(&secret.build()).await;
    for _ in 0..1_000 {
        world.driver.fail("CreateVolume", false, Code::Internal);
    }
    let data = claim(&world, "data").await;
    let other = world.create(&build::claim("other").class("secret").build()).await;
    for claim in [&data, &other] {
        world
            .until("told", async || {
                world.list::<Event>().await.iter().any(|event| {
                    event.reason.as_deref() == Some("ProvisioningFailed")
                        && event.involved_object.uid.as_deref() == Some(claim.uid())
                })
            })
            .await;
    }
    nothing_stored(&world).await;
    process.crash().await;
    world.driver.state().faults.clear();
    for claim in [&data, &other] {
        world.delete(claim).await;
    }
    let calls = world.driver.state().calls.len();
    let process = world.start(None);
    world.until("claims gone", async || world.list::<PersistentVolumeClaim>().await.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.driver.state().calls.len(), calls, "{:?}", world.driver.state().calls);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_may_not_be_deleted_is_no_failure_of_the_claim() {
    let world = World::new().await;
    let process = world.start_without_method(Method::DELETE, "/leases");
    class(&world).await;
    world.driver.fail("CreateVolume", false, Code::Internal);
    let data = claim(&world, "data").await;
    world.until("bound", async || bound(&world, &data).await).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let failed = world.list::<Event>().await.into_iter();
    let failed = failed.filter(|event| event.reason.as_deref() == Some("ProvisioningFailed"));
    let texts: Vec<String> = failed.filter_map(|event| event.message).collect();
    assert!(texts.iter().all(|text| text.contains("as told")) && texts.len() == 1, "{texts:?}");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_rights_on_leases_volumes_are_made_all_the_same() {
    let world = World::new().await;
    let process = world.start_without("/leases");
    class(&world).await;
    let data = claim(&world, "data").await;
    world.until("bound", async || bound(&world, &data).await).await;
    assert_eq!(volume::claim_volume(&world.get(&data).await.unwrap()), format!("pvc-{}", data.uid()));
    assert_eq!(intents(&world).await, 0);
    world.delete(&data).await;
    nothing_left(&world).await;
    process.end().await;
}

/// The volume of a claim that is gone was kept under another name: a second object would delete it.
#[tokio::test(start_paused = true)]
async fn a_volume_that_was_kept_under_another_name_is_left_alone() {
    let world = World::new().await;
    let process = world.start(None);
    let data = unanswered(&world).await;
    process.crash().await;
    world.driver.state().faults.clear();
    let handle = world.driver.state().volumes.values().next().cloned().expect("a volume");
    let kept: PersistentVolume = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "kept"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": NAME, "volumeHandle": handle},
        },
    }))
    .expect("a volume");
    world.create(&kept).await;
    world.delete(&data).await;
    let process = world.start(None);
    nothing_stored(&world).await;
    let volumes: Vec<String> =
        world.list::<PersistentVolume>().await.iter().map(|volume| volume.name().to_owned()).collect();
    assert_eq!(volumes, ["kept"]);
    assert!(
        world.driver.state().volumes.values().any(|id| *id == handle),
        "{:?}",
        world.driver.state().calls
    );
    process.end().await;
}
