//! The process dies.

use super::*;

/// Goal: wherever the process dies, and whether its last write landed or not, its successor finishes the journey.
/// Method: count the writes of a calm run, then break the connection at each of them in turn.
#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_is_survived() {
    let calm = journey(None).await;
    assert!(calm >= 8, "a journey has at least eight writes, counted {calm}");
    for at in 0..calm {
        for landed in [false, true] {
            journey(Some(Cut { at, landed })).await;
        }
    }
}

/// Claim and pod come, run and go; returns how many writes it took the process without a cut.
async fn journey(cut: Option<Cut>) -> usize {
    let world = World::new().await;
    let mut process = world.start(cut);
    let (claim, pod) = late_pod(&world).await;
    if cut.is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let placed = async || node_of(&world, "web").await == "n1";
    if cut.is_some() && !placed().await {
        process.crash().await;
        process = world.start(None);
    }
    world.until(&format!("the pod has a node, {cut:?}"), placed).await;
    check_pairs(&world).await;
    assert_eq!(world.list::<PersistentVolume>().await.len(), 1, "{cut:?}");

    world.delete(&pod).await;
    world.delete(&claim).await;
    let empty =
        async || world.list::<PersistentVolume>().await.is_empty() && world.get(&claim).await.is_none();
    if cut.is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !empty().await {
            process.crash().await;
            process = world.start(None);
        }
    }
    world.until(&format!("nothing is left, {cut:?}"), empty).await;
    let writes = process.writes();
    process.crash().await;
    writes
}
