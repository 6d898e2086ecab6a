//! What is used stays; what is not used goes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_used_claim_stays_until_its_pod_is_gone_and_then_nothing_is_left() {
    let world = World::new().await;
    let process = world.start(None);
    let (claim, pod) = late_pod(&world).await;
    world.until("the pod has a node", async || node_of(&world, "web").await == "n1").await;
    world.delete(&claim).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.get(&claim).await.is_some(), "a pod on a node uses it");
    world.delete(&pod).await;
    world.until("the claim is gone", async || world.get(&claim).await.is_none()).await;
    world.until("the volume is gone", async || world.list::<PersistentVolume>().await.is_empty()).await;
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_claims_that_go_together_share_their_live_lists() {
    let world = World::new().await;
    let process = world.start(None);
    world.create(&build::class("fast", DRIVER).build()).await;
    let claims: Vec<_> = (0..60).map(|n| build::claim(&format!("c{n:02}")).class("fast").build()).collect();
    for claim in &claims {
        world.create(claim).await;
    }
    world
        .until("all are bound", async || {
            world
                .list::<PersistentVolumeClaim>()
                .await
                .iter()
                .all(|c| volume::claim_phase(c) == volume::BOUND)
        })
        .await;
    let before = process.pod_lists();
    futures::future::join_all(claims.iter().map(|claim| world.delete(claim))).await;
    world.until("all are gone", async || world.list::<PersistentVolumeClaim>().await.is_empty()).await;
    world.until("volumes too", async || world.list::<PersistentVolume>().await.is_empty()).await;
    let lists = process.pod_lists() - before;
    assert!((1..=6).contains(&lists), "{lists} live lists for 60 claims");
    process.end().await;
}
