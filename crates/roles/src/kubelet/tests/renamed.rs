//! A node whose name has changed: what lives under the old one is left as it is.

use std::path::Path;
use std::time::Duration;

use bowline_api::{Meta, build};
use bowline_host::disk::Kind;
use serde_json::json;

use super::world::{KUBELET_DIR, World};
use crate::crew::Crew;
use crate::kubelet::{KubeletConfig, run_kubelet};

/// NODE-3: containers, emptyDirs and CSI mounts alike.
#[tokio::test(start_paused = true)]
async fn pods_of_the_old_name_keep_containers_and_volumes() {
    let mut world = World::with_claim(11).await;
    let mut pod = build::pod("p").shell("sleep 9").mount("data", "/data").build();
    let spec = pod.spec.as_mut().unwrap();
    let cache = serde_json::from_value(json!({"name": "cache", "emptyDir": {}})).unwrap();
    spec.volumes.as_mut().unwrap().push(cache);
    let mount = serde_json::from_value(json!({"name": "cache", "mountPath": "/cache"})).unwrap();
    spec.containers[0].volume_mounts.as_mut().unwrap().push(mount);
    let pod = world.pod(pod).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let cache =
        Path::new(KUBELET_DIR).join("pods").join(pod.uid()).join("volumes/kubernetes.io~empty-dir/cache");
    assert_eq!(world.host.disk.kind(&cache).await.unwrap(), Some(Kind::Dir));
    let (containers, mounts) = (world.running(), world.fake.mounts().len());
    world.stop_kubelet().await;

    world.ports = world.fresh_ports();
    let crew = Crew::default();
    let config = KubeletConfig::new("renamed", KUBELET_DIR);
    run_kubelet(world.ports.clone(), config, &crew).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.running(), containers, "containers run on");
    assert_eq!(world.host.disk.kind(&cache).await.unwrap(), Some(Kind::Dir), "the emptyDir stays");
    assert_eq!(world.fake.mounts().len(), mounts);
    assert!(!world.driver.calls().iter().any(|call| call.starts_with("un")), "{:?}", world.driver.calls());
}
