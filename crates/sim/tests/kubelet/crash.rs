//! Goal: wherever the kubelet dies, its successor brings the pod up once, and takes everything down again.
//! Method: count its effects in a calm run, then end the process (with the driver in it) after each of them.

use std::time::Duration;

use bowline_api::{Pod, build, pod};
use tokio::runtime::{Builder, Runtime};

use super::world::World;

/// Dropping it ends every task in it at once: nothing is finished, no answer arrives.
fn process() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

async fn world() -> World {
    let mut world = World::new(3).await;
    world.start_kubelet().await;
    world.csi_driver(true).await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    world.bound_claim("raw", true, "ReadWriteOnce").await;
    world
}

fn both_volumes() -> Pod {
    build::pod("p").shell("sleep 9").mount("data", "/data").device("raw", "/dev/xvda").build()
}

/// Up to `effects` effects of the kubelet, or the whole way up and down. Returns how many there were.
async fn journey(world: &mut World, effects: Option<usize>) -> usize {
    let mut journal = world.ports.journal.listen();
    world.start_driver().await;
    world.attach_all(&["data", "raw"]).await;
    let pod = world.pod(both_volumes()).await;
    let mut count = 0;
    let mut deleted = false;
    loop {
        let Some(entry) = journal.recv().await else { return count };
        // The lease is renewed for ever: the journey is over when that is all that happens.
        if deleted && world.phase("p") == "gone" && entry.object.starts_with("lease") {
            return count;
        }
        if entry.component != "kubelet" || entry.object.starts_with("lease") {
            continue;
        }
        count += 1;
        if Some(count) == effects {
            return count;
        }
        if !deleted && world.phase("p") == "Running" {
            deleted = true;
            world.delete(&pod, None).await;
        }
    }
}

#[test]
fn the_kubelet_survives_a_crash_after_every_effect() {
    let calm = process().block_on(async { journey(&mut world().await, None).await });
    assert!(calm > 20, "{calm} effects");
    for effects in 1..=calm {
        let first = process();
        let mut world = first.block_on(async {
            let mut world = world().await;
            journey(&mut world, Some(effects)).await;
            world
        });
        drop(first);
        process().block_on(async {
            world.driver.forget_calls_in_flight();
            world.start_kubelet().await;
            world.start_driver().await;
            let name = format!("crash after effect {effects}");
            let up =
                |w: &World| w.phase("p") == "gone" || (w.phase("p") == "Running" && w.running().len() == 1);
            world.until(&name, up).await;
            let pods = world.ports.informers.of::<Pod>().list();
            for pod in pods.iter().filter(|p| pod::phase(p) == "Running") {
                world.delete(pod, None).await;
            }
            world.until(&name, |w| w.phase("p") == "gone" && w.driver.is_idle()).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.assert_clean().await;
            assert!(world.fake.containers().is_empty(), "{name}");
        });
    }
}
