//! Mounts of pods whose volume cannot be worked out: the record is unreadable and no PersistentVolume has the name.
//!
//! They are never unmounted and never forgotten; their pods are told how to help, and go on when the mount is gone.

use std::path::Path;
use std::time::Duration;

use bowline_api::Pod;
use bowline_machinery::Ports;

use super::memory::Memory;
use crate::indexes::PODS_BY_UID;

/// First and longest pause between two looks.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(122));

/// Looks at what `memory` holds of them until it is gone, in the background.
pub fn watch(ports: &Ports, memory: Memory) {
    if memory.stuck().is_empty() {
        return;
    }
    let ports = ports.clone();
    tokio::spawn(async move {
        let recorder = ports.recorder("kubelet");
        let pods = ports.informers.of::<Pod>();
        pods.synced().await;
        let mut pause = PAUSE.0;
        while !memory.stuck().is_empty() {
            for (uid, mount) in memory.stuck() {
                if let Ok(None) = ports.host.kernel.mount_at(&mount).await {
                    memory.remove_stuck(&uid, &mount);
                    continue;
                }
                for pod in pods.indexed(PODS_BY_UID, &uid) {
                    recorder.warning(pod.as_ref(), "FailedUnmount", text(&mount));
                }
            }
            tokio::select! {
                biased;
                () = ports.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    });
}

fn text(mount: &Path) -> String {
    let mount = mount.display();
    format!(
        "UnmountVolume.TearDown failed: `{mount}` is mounted, but its vol_data.json cannot be read and no PersistentVolume has its name, so its driver is not known; `findmnt {mount}` shows it, `umount {mount}` lets the pod go"
    )
}
