//! Volumes that are reachable from some nodes only.

use std::time::Duration;

use bowline_api::{PersistentVolume, build};
use bowline_machinery::effect::Part;
use serde_json::json;
use tokio::time::Instant;

use super::world::World;

/// B12: the label that the volume's affinity asks for comes late.
#[tokio::test(start_paused = true)]
async fn a_label_of_the_node_wakes_a_mount_that_waits_for_it() {
    let world = World::with_claim(5).await;
    let effects = world.effects();
    let volume = effects.get_live::<PersistentVolume>("", "pv-data").await.unwrap().unwrap();
    let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let affinity = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [zone]}}}});
    effects.patch(Part::Main, &volume, affinity).await.unwrap();
    world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    let refused =
        |w: &World| w.events("FailedMount").iter().any(|text| text.contains("NodeAffinity check failed"));
    world.until("refused", refused).await;
    assert_eq!(world.phase("p"), "Pending");

    let labelled = Instant::now();
    let labels = json!({"metadata": {"labels": {"zone": "a"}}});
    effects.patch(Part::Main, &world.node().unwrap(), labels).await.unwrap();
    world.until("running", |w| w.phase("p") == "Running").await;
    assert!(labelled.elapsed() < Duration::from_secs(2), "pushed, not polled: {:?}", labelled.elapsed());
}
