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
            self.bind_2_affinity(pod);
            self.sec_2(pod);
        }
        let ended = matches!(pod::phase(pod), "Failed" | "Succeeded");
        let excused = pod.deleting() || self.struck_down.contains(pod.uid());
        if ended && !excused {
            let told = pod.status.as_ref().map(|status| (&status.reason, &status.message));
            self.broken(format!("NODE-3: pod {} ended although nothing asked it to: {told:?}", pod.key()));
        }
    }

    /// A pod runs only where its volumes can be reached. A node that was deleted and registers again says where it is only
    /// once its driver has registered, too, while its pods go on: what it said before counts.
    fn bind_2_affinity(&mut self, pod: &Pod) {
        let Some(node) = self.nodes.get(pod::node_name(pod)) else { return };
        let mut node = node.as_ref().clone();
        node.metadata.labels = self.places.get(pod::node_name(pod)).cloned();
        for (_, claim) in pod::claims(pod) {
            let key = bowline_api::ObjectKey::new(pod.namespace(), claim);
            let name = self.claims.get(&key).map(|claim| volume::claim_volume(claim).to_owned());
            let found = self.volumes.values().find(|found| Some(found.name()) == name.as_deref()).cloned();
            if found.is_some_and(|found| !bowline_api::selector::volume_reachable(&found, &node)) {
                self.broken(format!("BIND-2: pod {} runs where its volume cannot be reached", pod.key()));
            }
        }
    }

    /// A container sees what is in its own pod's directory, and no device but those of its own claims.
    fn sec_2(&mut self, pod: &Pod) {
        let (kubelet, uid) = (kubelet_dir(pod::node_name(pod)), pod.uid());
        let devices = kubelet.join("plugins/kubernetes.io/csi/volumeDevices");
        let claim = |(_, name): (&str, String)| {
            let key = bowline_api::ObjectKey::new(pod.namespace(), name);
            self.claims.get(&key).map(|claim| volume::claim_volume(claim).to_owned())
        };
        let device = |volume: String| devices.join(volume).join("dev").join(uid);
        let mut own: Vec<PathBuf> = pod::claims(pod).filter_map(claim).map(device).collect();
        own.push(kubelet.join("pods").join(uid));
        let prefix = format!("{uid}/");
        let ids = self.machine.containers().into_keys().filter(|id| id.starts_with(&prefix));
        for id in ids.collect::<Vec<_>>() {
            let Some(spec) = self.machine.container_spec(&id) else { continue };
            let sources = spec.mounts.iter().chain(&spec.devices).map(|binding| binding.source.clone());
            let strange = |source: &PathBuf| !own.iter().any(|dir| source.starts_with(dir));
            let strange: Vec<PathBuf> = sources.filter(strange).collect();
            if !strange.is_empty() {
                self.broken(format!("SEC-2: container {id} sees {strange:?}"));
            }
        }
    }

    /// A volume is taken from a pod only when its containers have ended.
    pub(super) fn node_3_unpublish(&mut self, target: &str) {
        let Some((_, rest)) = target.split_once("/pods/") else { return };
        let prefix = format!("{}/", rest.split('/').next().unwrap_or_default());
        let containers = self.machine.containers().into_iter();
        let mut running = containers
            .filter(|(id, state)| id.starts_with(&prefix) && matches!(state, State::Running { .. }));
        if let Some((id, _)) = running.next() {
            self.broken(format!("NODE-3: {target} is taken from container {id}, which runs"));
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
            let Some(handle) = self.handle_named(&name) else { continue };
            let dir = kubelet_dir(pod::node_name(pod)).join("pods").join(pod.uid());
            let mount = dir.join("volumes/kubernetes.io~csi").join(&name).join("mount");
            let mounted = self.machine.mounts().iter().any(|entry| entry.target == mount);
            // A machine that has lost power since shows nothing.
            if !mounted {
                continue;
            }
            let found = self.machine.read(&mount.join(MARK)).now_or_never().and_then(Result::ok);
            match found {
                Some(bytes) if bytes == handle.as_bytes() => {}
                Some(_) => self.broken(format!("NODE-2: pod {} sees the bytes of another volume", pod.key())),
                None if self.marked.contains(&handle) => {
                    self.broken(format!("NODE-2: what was written to {name} is gone"));
                }
                None => {
                    let mark = mount.join(MARK);
                    let write = self.machine.write_atomic(&mark, handle.as_bytes(), 0o600);
                    if let Some(Ok(())) = write.now_or_never() {
                        self.marked.insert(handle);
                    }
                }
            }
        }
    }

    /// A kubelet ends or removes a container. One that runs for a pod that is wanted is left alone.
    pub fn container_touched(&mut self, id: &str, how: &str) {
        self.look();
        if !matches!(self.machine.containers().get(id), Some(State::Running { .. })) {
            return;
        }
        let uid = id.split('/').next().unwrap_or_default();
        let wanted = self.pods.values().any(|pod| pod.uid() == uid && !pod.deleting());
        if wanted && !self.struck_down.contains(uid) {
            self.broken(format!("NODE-3: {how} container {id}, whose pod is wanted"));
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
}
