//! What whoever starts containers may know of these volumes.

use std::path::{Path, PathBuf};

use bowline_api::{Meta, Pod};

use super::memory::Memory;
use super::plan::{self, Plugin};
use crate::kubelet::volumemanager::{PodVolumes, VolumeAt};

/// Clones share it.
#[derive(Clone)]
pub struct Local {
    pub(super) memory: Memory,
    pub(super) kubelet_dir: PathBuf,
}

impl Local {
    /// What is known of a pod's volumes with a claim, and of these.
    pub fn with(&self, pod: &Pod, claimed: PodVolumes) -> PodVolumes {
        let (mut at, mut unready) = (Vec::new(), Vec::new());
        for (name, plan) in plan::of_pod(pod) {
            let state = self.memory.get(pod.uid(), name);
            if state.is_some_and(|state| state.ready(&plan)) {
                let path = directory(&self.kubelet_dir, pod.uid(), plan.plugin, name);
                // What is written here is not for containers to change.
                let volume = VolumeAt { path, block: false, read_only: plan.sources.is_some() };
                at.push((name.to_owned(), volume));
            } else {
                unready.push(name.to_owned());
            }
        }
        match claimed {
            PodVolumes::Ready(mut ready) if unready.is_empty() => {
                ready.extend(at);
                PodVolumes::Ready(ready)
            }
            PodVolumes::Ready(_) => PodVolumes::Waiting { unmounted: unready, problems: Vec::new() },
            PodVolumes::Waiting { mut unmounted, problems } => {
                unmounted.extend(unready);
                PodVolumes::Waiting { unmounted, problems }
            }
        }
    }

    /// Whether anything of a pod is here, or may be, that its end waits for.
    pub fn left(&self, pod_uid: &str) -> bool {
        self.memory.holds(pod_uid)
    }

    /// Whether any volume is mounted, or may be.
    pub fn any_mounted(&self) -> bool {
        self.memory.any_mounted()
    }

    /// Calls `handler` with the UID of a pod whenever its volumes may have changed.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.memory.on_change(handler);
    }
}

pub(super) fn volumes(kubelet_dir: &Path, uid: &str) -> PathBuf {
    kubelet_dir.join("pods").join(uid).join("volumes")
}

/// Where a volume is.
pub(super) fn directory(kubelet_dir: &Path, uid: &str, plugin: Plugin, name: &str) -> PathBuf {
    volumes(kubelet_dir, uid).join(plugin.directory()).join(name)
}
