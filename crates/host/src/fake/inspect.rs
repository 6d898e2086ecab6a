//! What a test sees of the fake machine past its doors, and how it makes trouble.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::tree::FsId;
use super::{FakeHost, Program, loops, mounts};
use crate::Clock;
use crate::containers::{ContainerSpec, SIGNALLED, State};
use crate::disk::{Owner, Space};
use crate::kernel::{Content, Mount, Queue};

impl FakeHost {
    /// The mount table, without the machine's own `/` and `/dev`.
    pub fn mounts(&self) -> Vec<Mount> {
        self.world().tree.mount_table().split_off(mounts::SYSTEM_MOUNTS)
    }

    /// Attached loop devices and their images.
    pub fn loops(&self) -> Vec<(PathBuf, PathBuf)> {
        let world = self.world();
        world.loops.iter().map(|(number, l)| (loops::device_path(*number), l.image.clone())).collect()
    }

    /// Every regular file of the root filesystem and its bytes (holes of sparse files left out).
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.world().tree.root_files()
    }

    /// Every container with a record.
    pub fn containers(&self) -> BTreeMap<String, State> {
        self.world().containers.iter().map(|(id, c)| (id.clone(), c.state())).collect()
    }

    /// Ends a running container as if its program had returned `code`.
    pub fn exit(&self, id: &str, code: i32) {
        let now = self.now();
        self.world().end_container(id, code, None, now);
    }

    /// The program of a container leaves a message about its end.
    pub fn leave_message(&self, id: &str, text: &str) {
        if let Some(container) = self.world().containers.get_mut(id) {
            container.message = container.spec.message_path.is_some().then(|| text.to_owned());
        }
    }

    /// Ends a running container as the kernel does when its memory is used up.
    pub fn out_of_memory(&self, id: &str) {
        let now = self.now();
        self.world().end_as(id, SIGNALLED + nix::libc::SIGKILL, None, true, now);
    }

    /// What a container was started with.
    pub fn container_spec(&self, id: &str) -> Option<ContainerSpec> {
        self.world().containers.get(id).map(|container| container.spec.clone())
    }

    /// What a command line does from now on when it is run in a container.
    pub fn set_program(&self, command: &str, program: Program) {
        self.world().programs.insert(command.to_owned(), program);
    }

    /// Container and command line of each program that was run in one, in order.
    pub fn executed(&self) -> Vec<(String, String)> {
        self.world().executed.clone()
    }

    /// Lets a container ignore what only asks it to end.
    pub fn only_killed_ends(&self, id: &str) {
        if let Some(container) = self.world().containers.get_mut(id) {
            container.stubborn = true;
        }
    }

    /// Puts data onto the device of an image, for tests of what may not be formatted.
    pub fn set_content(&self, image: &Path, content: Content) {
        self.world().tree.set_image(image, content);
    }

    /// Writes to the device over an image (or to an image) as a workload with a block volume does.
    pub fn write_device(&self, device: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.world().write_device(device, offset, bytes)
    }

    /// Room on the machine's own disk from now on. What needs more, holes excepted, fails for want of space;
    /// what is written does not count against it.
    pub fn set_space(&self, space: Space) {
        self.world().tree.space = space;
    }

    /// Lets the machine's own disk refuse writes, as after an error of its device.
    pub fn set_read_only(&self, read_only: bool) {
        self.world().tree.read_only = read_only;
    }

    /// Lets files of the machine's own disk share blocks, as on xfs or btrfs.
    pub fn set_reflinks(&self, reflinks: bool) {
        self.world().tree.reflinks = reflinks;
    }

    /// Errors that the kernel has noted for the filesystem in an image.
    pub fn set_errors(&self, image: &Path, errors: u64) {
        let tree = &mut self.world().tree;
        let Ok(ino) = tree.file(image).map(|file| file.ino) else { return };
        if let Some(image) = tree.images.get_mut(&ino) {
            image.errors = errors;
        }
    }

    /// Lets the mounted filesystem in an image refuse writes until it is mounted anew: its answer to an error.
    pub fn fail_filesystem(&self, image: &Path) {
        let tree = &mut self.world().tree;
        if let Ok(ino) = tree.file(image).map(|file| file.ino) {
            tree.table.fail(FsId::Image(ino));
        }
    }

    /// What was last set for the queue of an attached loop device.
    pub fn queue(&self, device: &Path) -> Option<Queue> {
        let world = self.world();
        world.loops.get(&world.loop_number(device)?).map(|attached| attached.queue)
    }

    /// The owner that a directory was created with by [`Disk::create_owned_dir`](crate::Disk::create_owned_dir).
    pub fn owner(&self, path: &Path) -> Option<Owner> {
        let world = self.world();
        let place = world.tree.place(path).ok()?;
        world.tree.owners.get(&(place.fs, place.inner)).copied()
    }

    /// The group that a file or directory was given by [`Disk::set_group`](crate::Disk::set_group).
    pub fn group(&self, path: &Path) -> Option<u32> {
        let world = self.world();
        let place = world.tree.place(path).ok()?;
        world.tree.groups.get(&(place.fs, place.inner)).copied()
    }

    /// How long giving a tree to a group takes from now on.
    pub fn set_walk_takes(&self, takes: std::time::Duration) {
        self.world().walk_takes = takes;
    }

    /// Where a filesystem is frozen now: every mount of it.
    pub fn frozen(&self) -> Vec<PathBuf> {
        let world = self.world();
        world.tree.table.targets(&world.tree.frozen)
    }

    /// Makes the next call of one operation (`mount`, `write_atomic`, `start`, …) fail with an errno and do
    /// nothing. Repeated calls queue up. `create_dir_all.after` fails when all is done: an answer that is lost.
    pub fn fail_next(&self, operation: &str, errno: i32) {
        self.world().faults.entry(operation.into()).or_default().push_back(errno);
    }

    /// Makes the call after the next `passing` ones of an operation fail with an errno and do nothing.
    pub fn fail_later(&self, operation: &str, passing: usize, errno: i32) {
        let mut world = self.world();
        let planned = world.faults.entry(operation.into()).or_default();
        planned.extend(std::iter::repeat_n(0, passing));
        planned.push_back(errno);
    }

    /// Forgets every planned failure.
    pub fn fail_no_more(&self) {
        self.world().faults.clear();
    }

    /// Operations with a planned failure that has not come to pass. A name that no operation has stays here for
    /// ever, so a test that asks can neither misspell one nor plan what nothing checks.
    pub fn planned(&self) -> Vec<String> {
        let world = self.world();
        world.faults.iter().filter(|(_, left)| !left.is_empty()).map(|(name, _)| name.clone()).collect()
    }

    /// Takes a program away, or gives it back.
    pub fn set_tool(&self, name: &str, present: bool) {
        let mut world = self.world();
        world.tools.retain(|t| t != name);
        if present {
            world.tools.push(name.into());
        }
    }

    /// Takes the image from a loop device behind every user's back; see [`World::clear`].
    pub fn clear_loop(&self, device: &Path) {
        self.world().clear(device);
    }

    /// Gives a loop device, free or not, to another image behind every user's back.
    pub fn replace_loop(&self, device: &Path, image: &Path) -> io::Result<()> {
        self.world().replace(device, image)
    }

    /// Frees every locked file, as the end of the processes that hold them does.
    pub fn release_locks(&self) {
        self.world().locks.clear();
    }
}
