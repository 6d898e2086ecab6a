//! A pod's `fsGroup`: which volumes are given to it, and the walk that does so (reference kube-core.md 4.10).

use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use bowline_api::{CSIDriver, Meta, PersistentVolume, Pod, pod, volume};
use bowline_host::disk::{GroupChange, GroupGrant, Walk};
use bowline_machinery::{Ports, Recorder};

use super::reported::PATIENCE;
use super::tenants::Tenants;
use crate::indexes::PODS_BY_UID;

/// The pause before each further report of a walk: upstream's. The first comes earlier than upstream's 30 s.
const REPORT_PAUSE: Duration = Duration::from_secs(60);
const IN_PROGRESS: &str = "VolumePermissionChangeInProgress";

/// The group of a pod's volumes, if it asks for one.
pub fn fs_group(pod: &Pod) -> Option<u32> {
    let context = pod.spec.as_ref()?.security_context.as_ref()?;
    context.fs_group.and_then(|gid| u32::try_from(gid).ok())
}

/// Whether and how the kubelet itself gives a CSI volume to the pod's group. A driver with VOLUME_MOUNT_GROUP does it.
pub fn csi_grant(
    pod: &Pod,
    pv: &PersistentVolume,
    driver: Option<&CSIDriver>,
    read_only: bool,
    driver_does_it: bool,
) -> Option<GroupGrant> {
    let gid = fs_group(pod)?;
    if driver_does_it || read_only {
        return None;
    }
    let allowed = match driver.and_then(|d| d.spec.fs_group_policy.as_deref()) {
        Some("None") => false,
        Some("File") => true,
        // ReadWriteOnceWithFSType: who else writes to it, or has no modes to change, keeps what it has.
        _ => {
            let typed = volume::csi(pv).and_then(|csi| csi.fs_type.as_deref()).is_some_and(|t| !t.is_empty());
            let once = [volume::READ_WRITE_ONCE, volume::READ_WRITE_ONCE_POD];
            typed && volume::volume_access_modes(pv).iter().any(|mode| once.contains(&mode.as_str()))
        }
    };
    let context = pod.spec.as_ref()?.security_context.as_ref()?;
    let change = match context.fs_group_change_policy.as_deref() {
        Some("OnRootMismatch") => GroupChange::OnRootMismatch,
        _ => GroupChange::Always,
    };
    allowed.then_some(GroupGrant { gid, change, read_only: false })
}

/// Gives a volume to a pod's group. Says so when it takes long, and gives up when no pod waits for it any more, because
/// the pod ends or the node agent stops: `Interrupted`.
pub async fn give(
    ports: &Ports,
    recorder: &Recorder,
    tenants: &Tenants,
    pod: &Pod,
    dir: &Path,
    grant: GroupGrant,
) -> io::Result<()> {
    let walk = Walk::default();
    let mut work = pin!(ports.host.disk.give_to_group(dir, grant, &walk));
    let pods = ports.informers.of::<Pod>();
    let ended = pods.until(|pods| {
        let mut known = pods.indexed(PODS_BY_UID, pod.uid()).into_iter();
        let lives = known.any(|pod| !pod.deleting() && !pod::terminated(&pod));
        (!lives).then_some(())
    });
    let mut unwanted = pin!(async {
        tokio::select! {
            biased;
            () = ports.stop.cancelled() => {}
            () = tenants.evicted() => {}
            () = ended => {}
        }
    });
    let (mut pause, mut cancelled) = (PATIENCE, false);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = &mut unwanted, if !cancelled => {
                walk.cancel();
                cancelled = true;
            }
            () = tokio::time::sleep(pause) => {
                let (shown, changed) = (dir.display(), walk.changed());
                let text = format!(
                    "Setting volume ownership for {shown} takes long: {changed} files so far; fsGroupChangePolicy OnRootMismatch skips volumes that are right already"
                );
                recorder.warning(pod, IN_PROGRESS, text);
                pause = REPORT_PAUSE;
            }
        }
    }
}
