//! What whoever starts containers may know: which of a pod's volumes are ready, and where.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bowline_api::{Meta, Pod};

use super::desired::{self, Claimed, Resolved};
use super::memory::Memory;
use super::model::{Mode, Presence, Target};
use super::paths::Paths;
use super::sources::Sources;

/// A volume that containers can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAt {
    /// A directory, or a device.
    pub path: PathBuf,
    pub block: bool,
    pub read_only: bool,
}

/// The volumes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodVolumes {
    /// All are mounted; by the volume's name in the pod.
    Ready(BTreeMap<String, VolumeAt>),
    /// Names of volumes that are not mounted yet, and of those that cannot be for the given reason.
    Waiting { unmounted: Vec<String>, problems: Vec<(String, String)> },
}

/// A CSI volume that a pod has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedVolume {
    pub pod_uid: String,
    pub pod_name: String,
    pub pod_namespace: String,
    /// The volume's name in the pod.
    pub volume: String,
    /// Namespace and name of its claim; none if the pod describes the volume itself.
    pub claim: Option<(String, String)>,
    pub driver: String,
    pub handle: String,
    /// Where the driver's questions about it lead: the mount, or the mapped device.
    pub path: PathBuf,
}

/// A view of the volume manager; clones share it.
#[derive(Clone)]
pub struct Mounts {
    sources: Sources,
    memory: Memory,
    paths: Paths,
}

impl Mounts {
    pub(super) fn new(sources: Sources, memory: Memory, paths: Paths) -> Self {
        Self { sources, memory, paths }
    }

    /// Whether the volumes that the pod's containers use are mounted, and where. Volumes without a
    /// driver are not considered.
    pub fn ready(&self, pod: &Pod) -> PodVolumes {
        let mut at = BTreeMap::new();
        let (mut unmounted, mut problems) = (Vec::new(), Vec::new());
        for wanted in desired::claimed(pod) {
            match self.resolve(pod, &wanted) {
                Err(why) => problems.push((wanted.volume_name.clone(), why)),
                Ok(resolved) => match self.mounted(pod.uid(), resolved) {
                    Some(volume) => drop(at.insert(wanted.volume_name.clone(), volume)),
                    None => unmounted.push(wanted.volume_name.clone()),
                },
            }
        }
        for (name, resolved) in desired::inline(pod) {
            match resolved.map(|resolved| self.mounted(pod.uid(), resolved)) {
                Err(why) => problems.push((name, why)),
                Ok(Some(volume)) => drop(at.insert(name, volume)),
                Ok(None) => unmounted.push(name),
            }
        }
        if unmounted.is_empty() && problems.is_empty() {
            PodVolumes::Ready(at)
        } else {
            PodVolumes::Waiting { unmounted, problems }
        }
    }

    /// The CSI volumes of a pod that are mounted.
    pub fn mounted_volumes(&self, pod: &Pod) -> Vec<MountedVolume> {
        let claim = |claim: String| Some((pod.namespace().to_owned(), claim));
        let claimed = desired::claimed(pod).into_iter().filter_map(|wanted| {
            let resolved = self.resolve(pod, &wanted).ok()?;
            Some((wanted.volume_name, claim(wanted.claim_name), resolved))
        });
        let inline =
            desired::inline(pod).into_iter().filter_map(|(name, found)| Some((name, None, found.ok()?)));
        let all = claimed.chain(inline).filter_map(|(volume, claim, resolved)| {
            let (driver, handle) = (resolved.driver.clone(), resolved.handle.clone());
            let at = self.mounted(pod.uid(), resolved)?;
            Some(MountedVolume {
                pod_uid: pod.uid().to_owned(),
                pod_name: pod.name().to_owned(),
                pod_namespace: pod.namespace().to_owned(),
                volume,
                claim,
                driver,
                handle,
                path: at.path,
            })
        });
        all.collect()
    }

    /// Whether anything of a pod is mounted, or may be.
    pub fn left(&self, pod_uid: &str) -> bool {
        self.memory.left(pod_uid)
    }

    /// Why the volumes of a pod will never be attached to this node.
    pub fn rejected(&self, pod_uid: &str) -> Option<String> {
        self.memory.attach_limit(pod_uid)
    }

    /// Whether any volume is on this machine, or may be.
    pub fn any_left(&self) -> bool {
        self.memory.names().iter().any(|name| self.memory.get(name).is_some_and(|v| !v.absent()))
    }

    /// Calls `handler` with the UID of a pod whenever its volumes may have changed.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.memory.on_change(handler);
    }

    pub(super) fn resolve(&self, pod: &Pod, wanted: &Claimed) -> Result<Resolved, String> {
        self.sources.resolve(pod, wanted)
    }

    fn mounted(&self, pod_uid: &str, resolved: Resolved) -> Option<VolumeAt> {
        let Resolved { volume, spec_name, mode, read_only, .. } = resolved;
        let target = Target { pod_uid: pod_uid.to_owned(), spec_name };
        if self.memory.presence(&volume, &target) != Presence::Present {
            return None;
        }
        let (path, block) = match mode {
            Mode::Filesystem => (self.paths.mount(&target), false),
            Mode::Block => (self.paths.mapped(&target), true),
        };
        Some(VolumeAt { path, block, read_only })
    }
}
