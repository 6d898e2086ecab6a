//! How full volumes are: what drivers are asked, and what the node's metrics show.

use std::time::Duration;

use bowline_api::build;
use bowline_proto::csi::v1::{NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage};

use super::world::World;

fn answer() -> NodeGetVolumeStatsResponse {
    let bytes = VolumeUsage { available: 40, total: 100, used: 60, unit: 1 };
    let inodes = VolumeUsage { available: 4, total: 10, used: 6, unit: 2 };
    let condition = VolumeCondition { abnormal: true, message: "worn out".into() };
    NodeGetVolumeStatsResponse { usage: vec![bytes, inodes], volume_condition: Some(condition) }
}

#[tokio::test(start_paused = true)]
async fn statistics_of_mounted_volumes_are_measured_until_they_are_unmounted() {
    let mut world = World::new(91).await;
    world.driver.set_stats(answer());
    world.start_kubelet().await;
    world.start_driver().await;
    world.csi_driver(false).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    let pod = world.pod(build::pod("p").shell("sleep 9").mount("data", "/data").build()).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    let text = world.metrics.text();
    let samples = [
        ("capacity_bytes", 100),
        ("available_bytes", 40),
        ("used_bytes", 60),
        ("inodes", 10),
        ("inodes_free", 4),
        ("inodes_used", 6),
    ];
    for (name, value) in samples {
        let line = format!(
            "kubelet_volume_stats_{name}{{namespace=\"default\",persistentvolumeclaim=\"data\"}} {value}"
        );
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains("kubelet_volume_metric_collection_duration_seconds"), "{text}");
    assert!(world.events("VolumeConditionAbnormal").is_empty(), "the gate is off");
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    assert!(!world.metrics.text().contains("persistentvolumeclaim"), "{}", world.metrics.text());
}
