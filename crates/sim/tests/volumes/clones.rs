//! Clones: the source stays as long as something is copied from it, whatever crashes (PROV-1, PROV-2).

use std::time::Duration;

use bowline_api::{Event, Lease, Meta, PersistentVolumeClaim, build, keys};
use bowline_proto::csi::v1::volume_content_source::{Type, VolumeSource};
use k8s_openapi::api::core::v1::TypedLocalObjectReference;
use tonic::Code;

use super::world::World;
use super::{bound, claim, class, nothing_left};

async fn clone(world: &World, name: &str, of: &str) -> PersistentVolumeClaim {
    let mut claim = build::claim(name).class("fast").build();
    let source =
        TypedLocalObjectReference { kind: "PersistentVolumeClaim".into(), name: of.into(), api_group: None };
    claim.spec.as_mut().unwrap().data_source = Some(source);
    world.create(&claim).await
}

/// A bound claim, and a clone of it whose call took effect and is never answered.
async fn unanswered(world: &World) -> (PersistentVolumeClaim, PersistentVolumeClaim) {
    class(world).await;
    let source = claim(world, "source").await;
    world.until("bound", async || bound(world, &source).await).await;
    for _ in 0..1_000 {
        world.driver.fail("CreateVolume", true, Code::DeadlineExceeded);
    }
    let copy = clone(world, "copy", "source").await;
    world.until("made", async || world.driver.state().volumes.len() == 2).await;
    (source, copy)
}

async fn guarded(world: &World, claim: &PersistentVolumeClaim) -> bool {
    world.get(claim).await.is_some_and(|claim| claim.has_finalizer(keys::CLONING_PROTECTION))
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_copied_from_the_volume_of_its_source() {
    let world = World::new().await;
    let process = world.start(None);
    class(&world).await;
    let copy = clone(&world, "copy", "source").await;
    let failed = async || {
        let events = world.list::<Event>().await;
        events.iter().any(|event| event.reason.as_deref() == Some("ProvisioningFailed"))
    };
    world.until("told that the source is missing", failed).await;
    let source = claim(&world, "source").await;
    world.until("bound", async || bound(&world, &copy).await).await;
    let content = world.driver.state().copied[&format!("id-pvc-{}", copy.uid())].clone();
    let volume_id = format!("id-pvc-{}", source.uid());
    assert_eq!(content.unwrap().r#type, Some(Type::Volume(VolumeSource { volume_id })));
    assert!(guarded(&world, &source).await);
    world.delete(&source).await;
    world.until("the source is gone", async || world.get(&source).await.is_none()).await;
    world.delete(&copy).await;
    nothing_left(&world).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_deleted_while_it_is_cloned_stays_until_the_clone_is_bound() {
    let world = World::new().await;
    let process = world.start(None);
    let (source, copy) = unanswered(&world).await;
    world.delete(&source).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(guarded(&world, &source).await, "the driver may still copy from it");
    world.driver.state().faults.clear();
    world.until("bound", async || bound(&world, &copy).await).await;
    world.until("the source is gone", async || world.get(&source).await.is_none()).await;
    world.delete(&copy).await;
    nothing_left(&world).await;
    process.end().await;
}

/// external-provisioner#486, for a clone: provisioner and claim end before the answer.
#[tokio::test(start_paused = true)]
async fn issue_486_the_successor_undoes_a_clone_whose_claim_is_gone_before_its_source_goes() {
    let world = World::new().await;
    let process = world.start(None);
    let (source, copy) = unanswered(&world).await;
    process.crash().await;
    world.delete(&copy).await;
    world.delete(&source).await;
    let process = world.start(None);
    world.until("the clone is gone", async || world.get(&copy).await.is_none()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(guarded(&world, &source).await, "the stored call copies from it");
    world.driver.state().faults.clear();
    nothing_left(&world).await;
    world.until("the source is gone", async || world.get(&source).await.is_none()).await;
    world.until("nothing is stored", async || world.list::<Lease>().await.is_empty()).await;
    assert_eq!(world.driver.state().made.len(), 2, "PROV-1: {:?}", world.driver.state().calls);
    process.end().await;
}

/// external-provisioner#1469: the provisioner's copy of the claim is from before it was bound.
#[tokio::test(start_paused = true)]
async fn issue_1469_a_volume_that_is_made_for_an_old_copy_of_a_claim_does_not_stay() {
    let world = World::new().await;
    class(&world).await;
    let others = world.start_others();
    let data = claim(&world, "data").await;
    let asked = async || {
        let claim = world.get(&data).await;
        claim.is_some_and(|claim| claim.annotation(keys::STORAGE_PROVISIONER).is_some())
    };
    world.until("asked for", asked).await;
    let before = world.listed("/api/v1/persistentvolumeclaims").await;
    let provisioner = world.start_provisioner(Some(before));
    world.until("bound", async || bound(&world, &data).await).await;
    world.delete(&data).await;
    nothing_left(&world).await;
    // Its class changes, so that the old copy of the claim is looked at again.
    world.delete(&world.list::<bowline_api::StorageClass>().await.remove(0)).await;
    class(&world).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    nothing_left(&world).await;
    provisioner.end().await;
    others.end().await;
}
