//! PROV-2 and everything else that must be gone, or still there, once nothing is wanted any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bowline_api::{Meta, volume};

use super::Oracle;
use super::machine::{NODES_DIR, POOL};
use super::secrets::sec_1_files;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What a kubelet keeps of volumes and pods, below its directory.
const KEPT_BY_KUBELETS: [&str; 3] = ["/plugins/kubernetes.io/csi/", "/pods/", "/bowline-pods/"];

impl Oracle {
    /// What is left although nothing is wanted, and what is missing although it was to be kept.
    pub fn left(&self, retained: &BTreeSet<String>) -> Vec<String> {
        // The machine is looked at only when its turn has come: it holds every byte of every volume.
        let mut left = self.objects_left();
        if !left.is_empty() {
            return left;
        }
        let files = self.machine.files();
        left.extend(self.machine_left(&files));
        let handles = backend_handles(&files);
        let orphans = handles.iter().filter(|handle| !retained.contains(*handle));
        left.extend(orphans.map(|id| format!("PROV-2: backend volume {id}")));
        let lost = retained.iter().filter(|handle| !handles.contains(*handle));
        left.extend(lost.map(|id| format!("PROV-3: the backend volume {id} was to be kept and is gone")));
        left
    }

    fn objects_left(&self) -> Vec<String> {
        let mut left = Vec::new();
        left.extend(self.pods.keys().map(|key| format!("pod {key}")));
        left.extend(self.claims.keys().map(|key| format!("claim {key}")));
        // People have deleted the objects of what they keep, and no finalizer of a role may hold these up (PROV-3).
        let named = self
            .volumes
            .values()
            .map(|found| format!("volume {} ({})", found.name(), volume::volume_phase(found)));
        left.extend(named);
        left.extend(self.attachments.keys().map(|key| format!("attachment {key}")));
        left.extend(self.stored_calls().map(|name| format!("lease {name}")));
        for (node, object) in &self.nodes {
            let used = bowline_api::node::volumes_in_use(object).iter();
            left.extend(used.map(|volume| format!("{volume} in use on {node}")));
            let attached = bowline_api::node::volumes_attached(object).into_iter();
            left.extend(attached.map(|volume| format!("{volume} attached to {node}")));
        }
        left
    }

    fn machine_left(&self, files: &Files) -> Vec<String> {
        let mut left = sec_1_files(files);
        left.extend(self.machine.mounts().iter().map(|mount| format!("mount {}", mount.target.display())));
        left.extend(self.machine.loops().iter().map(|(device, _)| format!("device {}", device.display())));
        left.extend(self.machine.containers().keys().map(|id| format!("container {id}")));
        let kept = files.keys().filter(|path| {
            let text = path.to_string_lossy();
            path.starts_with(NODES_DIR) && KEPT_BY_KUBELETS.iter().any(|part| text.contains(part))
        });
        left.extend(kept.map(|path| format!("file {}", path.display())));
        left
    }
}

/// Everything that the driver has a file of, with a record or without.
fn backend_handles(files: &Files) -> BTreeSet<String> {
    let volumes = Path::new(POOL).join("volumes");
    let handle = |path: &PathBuf| {
        Some(path.strip_prefix(&volumes).ok()?.iter().next()?.to_string_lossy().into_owned())
    };
    files.keys().filter_map(handle).collect()
}
