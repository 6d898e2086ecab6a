//! A control group of the test's own, in every hierarchy that the kernel has: the root of a kubelet's pods.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::PATIENCE;

const ROOT: &str = "/sys/fs/cgroup";

/// Removed with all below it when it is dropped; no process may be left in it then.
pub struct ControlGroup {
    name: String,
}

impl ControlGroup {
    pub fn make(name: &str) -> Self {
        let group = Self { name: name.to_owned() };
        for hierarchy in hierarchies() {
            std::fs::create_dir(hierarchy.join(name)).expect("a control group");
        }
        group
    }

    /// Groups of pods and of their containers.
    pub fn pods(&self) -> Vec<PathBuf> {
        let is_pod = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("pod"))
        };
        self.roots().iter().flat_map(|root| below(root)).filter(is_pod).collect()
    }

    fn roots(&self) -> Vec<PathBuf> {
        hierarchies().iter().map(|hierarchy| hierarchy.join(&self.name)).collect()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let patience = Instant::now() + PATIENCE;
        for root in self.roots() {
            // A process counts for a moment after its end.
            while let Err(error) = remove(&root) {
                if Instant::now() > patience {
                    let _ = writeln!(std::io::stderr(), "remove {}: {error}", root.display());
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// With the first version each controller has its own, beside one for processes alone.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root];
    }
    let entries = std::fs::read_dir(&root).expect("control groups").flatten();
    let is_hierarchy = |path: &PathBuf| path.join("cgroup.procs").exists() && !path.is_symlink();
    entries.map(|entry| entry.path()).filter(is_hierarchy).collect()
}

/// Deepest last.
fn below(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.flat_map(|entry| [vec![entry.path()], below(&entry.path())].concat()).collect()
}

fn remove(root: &Path) -> std::io::Result<()> {
    for group in below(root).iter().rev().map(PathBuf::as_path).chain([root]) {
        match std::fs::remove_dir(group) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
