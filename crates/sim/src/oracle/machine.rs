//! What the machine shows: mounts, devices, containers, and the driver's own records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bowline_api::{Meta, Pod, pod, volume};
use bowline_host::Disk;
use bowline_host::containers::State;
use futures::FutureExt;

use super::Oracle;

/// Each node has its kubelet's directory here.
pub const NODES_DIR: &str = "/var/lib/kubelets";
pub const POOL: &str = "/pool";
/// What a workload writes into its volume.
const MARK: &str = "written-by-the-workload";

pub fn kubelet_dir(node: &str) -> PathBuf {
    Path::new(NODES_DIR).join(node)
}

impl Oracle {
    /// The nodes that the driver has published a volume to, by its own record.
    pub(super) fn published_nodes(&self, handle: &str) -> BTreeSet<String> {
        let path = Path::new(POOL).join("volumes").join(handle).join("record.json");
        let read = self.machine.read(&path).now_or_never();
        let Some(Ok(bytes)) = read else { return BTreeSet::new() };
        let record: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let published = record["published"].as_object();
        published.map(|nodes| nodes.keys().cloned().collect()).unwrap_or_default()
    }

    /// The nodes on which a volume is mounted, or its device shown.
    pub(super) fn mounted_nodes(&self, handle: &str) -> BTreeSet<String> {
        let image = Path::new(POOL).join("volumes").join(handle);
        let loops = self.machine.loops();
        let devices: Vec<PathBuf> =
            loops.into_iter().filter(|(_, at)| at.starts_with(&image)).map(|(device, _)| device).collect();
        let shows = |mount: &bowline_host::kernel::Mount| {
            devices.iter().any(|device| Path::new(&mount.source) == device || mount.shows_device(device))
        };
        let mounts = self.machine.mounts().into_iter().filter(|mount| shows(mount));
        let nodes = mounts.filter_map(|mount| {
            let below = mount.target.strip_prefix(NODES_DIR).ok()?;
            Some(below.iter().next()?.to_string_lossy().into_owned())
        });
        nodes.collect()
    }

    pub(super) fn pod_changed(&mut self, pod: &Pod) {
        if pod::phase(pod) == "Running" {
            self.node_2(pod);
        }
        let ended = matches!(pod::phase(pod), "Failed" | "Succeeded");
        let excused = pod.deleting() || self.struck_down.contains(pod.uid());
        if ended && !excused {
            let told = pod.status.as_ref().map(|status| (&status.reason, &status.message));
            self.broken(format!("NODE-3: pod {} ended although nothing asked it to: {told:?}", pod.key()));
        }
    }

    /// A device that holds data is never formatted: what a workload wrote is there for the next one.
    fn node_2(&mut self, pod: &Pod) {
        let claims: Vec<String> = pod::claims(pod).map(|(_, claim)| claim).collect();
        for claim in claims {
            let key = bowline_api::ObjectKey::new(pod.namespace(), claim);
            let Some(claim) = self.claims.get(&key) else { continue };
            if volume::claim_mode(claim) == volume::BLOCK {
                continue;
            }
            let name = volume::claim_volume(claim).to_owned();
            let dir = kubelet_dir(pod::node_name(pod)).join("pods").join(pod.uid());
            let mount = dir.join("volumes/kubernetes.io~csi").join(&name).join("mount");
            let mounted = self.machine.mounts().iter().any(|entry| entry.target == mount);
            // A machine that has lost power since shows nothing.
            if !mounted {
                continue;
            }
            let found = self.machine.read(&mount.join(MARK)).now_or_never().and_then(Result::ok);
            match found {
                Some(bytes) if bytes == name.as_bytes() => {}
                Some(_) => self.broken(format!("NODE-2: pod {} sees the bytes of another volume", pod.key())),
                None if self.marked.contains(&name) => {
                    self.broken(format!("NODE-2: what was written to {name} is gone"));
                }
                None => {
                    let mark = mount.join(MARK);
                    let write = self.machine.write_atomic(&mark, name.as_bytes(), 0o600);
                    if let Some(Ok(())) = write.now_or_never() {
                        self.marked.insert(name);
                    }
                }
            }
        }
    }

    /// A container runs until its pod is to end, whatever happens to the node agent.
    pub(super) fn node_3(&mut self) {
        let ended = self.machine.containers().into_iter();
        let ended: Vec<String> =
            ended.filter(|(_, state)| matches!(state, State::Exited { .. })).map(|(id, _)| id).collect();
        for id in ended {
            let uid = id.split('/').next().unwrap_or_default();
            let wanted = self.pods.values().any(|pod| pod.uid() == uid && !pod.deleting());
            if wanted && !self.struck_down.contains(uid) {
                self.broken(format!("NODE-3: container {id} ended although its pod is wanted"));
            }
        }
    }

    /// PROV-2 and everything else that must be gone once nothing is wanted any more.
    pub fn left(&self, retained: &BTreeSet<String>) -> Vec<String> {
        let mut left = Vec::new();
        left.extend(self.pods.keys().map(|key| format!("pod {key}")));
        left.extend(self.claims.keys().map(|key| format!("claim {key}")));
        let volumes = self.volumes.values().filter(|found| volume::reclaim_policy(found) != "Retain");
        left.extend(
            volumes.map(|found| format!("volume {} ({})", found.name(), volume::volume_phase(found))),
        );
        left.extend(self.attachments.keys().map(|key| format!("attachment {key}")));
        left.extend(self.machine.mounts().iter().map(|mount| format!("mount {}", mount.target.display())));
        left.extend(self.machine.loops().iter().map(|(device, _)| format!("device {}", device.display())));
        left.extend(self.machine.containers().keys().map(|id| format!("container {id}")));
        let files = self.machine.files().into_keys();
        let records = files.filter(|path| path.starts_with(POOL) && path.ends_with("record.json"));
        let handles =
            records.filter_map(|path| Some(path.parent()?.file_name()?.to_string_lossy().into_owned()));
        left.extend(
            handles.filter(|handle| !retained.contains(handle)).map(|id| format!("PROV-2: backend {id}")),
        );
        left
    }

    /// Backend volumes that must outlive their claims.
    pub fn retained(&self) -> BTreeSet<String> {
        let kept = self.volumes.values().filter(|found| volume::reclaim_policy(found) == "Retain");
        kept.filter_map(|found| volume::csi(found)).map(|csi| csi.volume_handle.clone()).collect()
    }
}
