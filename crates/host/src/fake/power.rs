//! Power cuts: what lives in memory goes, what is on the disk stays.

use std::path::Path;

use super::loops::device_path;
use super::{FakeHost, World, net};
use crate::Clock;

/// One of several nodes that share the fake machine.
pub struct FakeNode<'a> {
    /// Where everything is mounted that is the node's own.
    pub dir: &'a Path,
    /// Its containers.
    pub containers: &'a [String],
    /// Images whose devices another node uses, although nothing shows them.
    pub used_elsewhere: &'a dyn Fn(&Path) -> bool,
}

impl FakeHost {
    /// A power cut: mounts, loop devices, sockets and processes go, files stay.
    pub fn reboot(&self) {
        let now = self.now();
        let mut world = self.world();
        let running: Vec<String> = world.containers.keys().cloned().collect();
        for id in running {
            world.end_container(&id, 137, Some("container shim was killed"), now);
        }
        world.containers.values_mut().for_each(|container| container.earlier_boot = true);
        world.loops.clear();
        world.locks.clear();
        world.sockets = net::Sockets::default();
        world.tree.reboot();
    }

    /// The same for one node alone: its mounts and processes go, and every device that no other node uses.
    pub fn reboot_node(&self, node: &FakeNode<'_>) {
        let now = self.now();
        let mut world = self.world();
        for id in node.containers {
            world.end_container(id, 137, Some("container shim was killed"), now);
            if let Some(container) = world.containers.get_mut(id) {
                container.earlier_boot = true;
            }
        }
        world.tree.table.remove_below(node.dir);
        let unused = world.unused_loops(node.used_elsewhere);
        world.loops.retain(|number, _| !unused.contains(number));
        world.tree.drop_unmounted_memory();
    }
}

impl World {
    /// Loop devices that no mount shows and that are not in use otherwise.
    fn unused_loops(&self, used: &dyn Fn(&Path) -> bool) -> Vec<u32> {
        let table = self.tree.mount_table();
        let unused = self.loops.iter().filter(|(number, attached)| {
            let device = device_path(**number);
            let shown = |mount: &crate::kernel::Mount| {
                Path::new(&mount.source) == device || mount.shows_device(&device)
            };
            !table.iter().any(shown) && !used(&attached.image)
        });
        unused.map(|(number, _)| *number).collect()
    }
}
