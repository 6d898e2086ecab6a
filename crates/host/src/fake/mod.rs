//! The fake world of simulations and unit tests.
//!
//! One [`FakeHost`] is one machine in memory: files, mounts, loop devices, sockets and containers, with the
//! refusals of a real kernel. It has no threads and no clock but tokio's, and iterates in a fixed order, so the
//! same seed gives the same run. Dropping everything that holds a [`Host`] is a crash of the process; the
//! machine stays as it is for the next one.

mod containers;
mod disk;
mod kernel;
mod loops;
mod mounts;
mod net;
mod tree;
mod trees;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::time::Instant;

use crate::containers::State;
use crate::kernel::{Content, KernelError, Mount};
use crate::{Clock, Failpoints, Host, Random};
use tree::Tree;

/// 2026-01-01T00:00:00Z, when every fake world begins.
const EPOCH_SECONDS: i64 = 1_767_225_600;

/// Programs a fresh fake machine has.
const TOOLS: [&str; 6] = ["blkid", "mkfs.ext4", "mkfs.xfs", "fsck.ext4", "resize2fs", "xfs_growfs"];

/// A machine in memory. Shared by the doors of a [`Host`] and by the test that looks into it.
pub struct FakeHost {
    born: Instant,
    random: Mutex<ChaCha12Rng>,
    world: Mutex<World>,
}

/// Everything on the machine, behind one lock: an operation is one step for all others.
#[derive(Default)]
struct World {
    tree: Tree,
    loops: BTreeMap<u32, loops::Loop>,
    sockets: net::Sockets,
    containers: BTreeMap<String, containers::Container>,
    next_pid: u32,
    tools: Vec<String>,
    faults: BTreeMap<String, VecDeque<i32>>,
}

/// A fresh machine whose randomness comes from `seed`.
pub fn host(seed: u64) -> (Host, Arc<FakeHost>) {
    let tools = TOOLS.iter().map(ToString::to_string).collect();
    let world = World { tools, next_pid: 100, ..World::default() };
    let fake = Arc::new(FakeHost {
        born: Instant::now(),
        random: Mutex::new(ChaCha12Rng::seed_from_u64(seed)),
        world: Mutex::new(world),
    });
    (fake.host(), fake)
}

impl FakeHost {
    /// Doors to this machine for one more process.
    pub fn host(self: &Arc<Self>) -> Host {
        Host {
            clock: self.clone(),
            random: self.clone(),
            disk: self.clone(),
            kernel: self.clone(),
            net: self.clone(),
            containers: self.clone(),
            failpoints: Failpoints::default(),
        }
    }

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

    /// Puts data onto the device of an image, for tests of what may not be formatted.
    pub fn set_content(&self, image: &Path, content: Content) {
        self.world().tree.set_image(image, content);
    }

    /// Makes the next call of one operation (`mount`, `write_atomic`, `start`, …) fail with an errno and do
    /// nothing. Repeated calls queue up.
    pub fn fail_next(&self, operation: &str, errno: i32) {
        self.world().faults.entry(operation.into()).or_default().push_back(errno);
    }

    /// Takes a program away, or gives it back.
    pub fn set_tool(&self, name: &str, present: bool) {
        let mut world = self.world();
        world.tools.retain(|t| t != name);
        if present {
            world.tools.push(name.into());
        }
    }

    /// A power cut: mounts, loop devices, sockets and processes go, files stay.
    pub fn reboot(&self) {
        let now = self.now();
        let mut world = self.world();
        let running: Vec<String> = world.containers.keys().cloned().collect();
        for id in running {
            world.end_container(&id, 137, Some("container shim was killed"), now);
        }
        world.loops.clear();
        world.sockets = net::Sockets::default();
        world.tree.reboot();
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// The errno a test has planned for this call, if any.
    fn planned_fault(&mut self, operation: &str) -> Option<i32> {
        self.faults.get_mut(operation)?.pop_front()
    }

    fn check_kernel(&mut self, operation: &str) -> Result<(), KernelError> {
        self.planned_fault(operation).map_or(Ok(()), |errno| Err(KernelError::errno(operation, errno)))
    }

    fn check_io(&mut self, operation: &str) -> std::io::Result<()> {
        self.planned_fault(operation).map_or(Ok(()), |errno| Err(std::io::Error::from_raw_os_error(errno)))
    }
}

impl Clock for FakeHost {
    fn now(&self) -> Timestamp {
        let epoch = Timestamp::from_second(EPOCH_SECONDS).unwrap_or_default();
        let lived: Duration = self.born.elapsed();
        epoch.checked_add(lived).unwrap_or(Timestamp::MAX)
    }
}

impl Random for FakeHost {
    fn next_u64(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
