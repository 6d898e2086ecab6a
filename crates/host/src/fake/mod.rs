//! The fake world of simulations and unit tests.
//!
//! One [`FakeHost`] is one machine in memory: files, mounts, loop devices, sockets and containers, with the
//! refusals of a real kernel. It has no threads and no clock but tokio's, and iterates in a fixed order, so the
//! same seed gives the same run. Dropping everything that holds a [`Host`] is a crash of the process; the
//! machine stays as it is for the next one.

mod blocks;
mod containers;
mod disk;
mod file;
mod files;
mod filesystems;
mod inspect;
mod kernel;
mod loops;
mod mounts;
mod net;
mod power;
mod tree;
mod trees;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::time::Instant;

use crate::disk::Walk;
use crate::kernel::KernelError;
use crate::{Clock, Failpoints, Host, Random, Uptime};
pub use containers::Program;
pub use power::FakeNode;
use tree::Tree;

/// 2026-01-01T00:00:00Z, when every fake world begins.
const EPOCH_SECONDS: i64 = 1_767_225_600;

/// Programs a fresh fake machine has.
const TOOLS: [&str; 9] = [
    "blkid",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkfs.btrfs",
    "fsck.ext4",
    "resize2fs",
    "xfs_growfs",
    "btrfs",
    "btrfstune",
];

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
    /// By command line.
    programs: BTreeMap<String, Program>,
    /// Container and command line of each program that was run.
    executed: Vec<(String, String)>,
    next_pid: u32,
    tools: Vec<String>,
    faults: BTreeMap<String, VecDeque<i32>>,
    /// Files that somebody has locked, as long as the other end lives.
    locks: BTreeMap<tree::Ino, Weak<()>>,
    /// How long giving a tree to a group takes.
    walk_takes: Duration,
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
            uptime: self.clone(),
            random: self.clone(),
            disk: self.clone(),
            kernel: self.clone(),
            net: self.clone(),
            containers: self.clone(),
            failpoints: Failpoints::default(),
        }
    }

    /// As a large volume would take, one entry each second.
    async fn walk_pause(&self, walk: &Walk) -> std::io::Result<()> {
        let mut left = self.world().walk_takes;
        while !left.is_zero() {
            let entry = left.min(Duration::from_secs(1));
            tokio::time::sleep(entry).await;
            left -= entry;
            walk.step()?;
        }
        Ok(())
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// The errno a test has planned for this call, if any; 0 lets it pass.
    fn planned_fault(&mut self, operation: &str) -> Option<i32> {
        self.faults.get_mut(operation)?.pop_front().filter(|errno| *errno != 0)
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

impl Uptime for FakeHost {
    fn uptime(&self) -> Duration {
        self.born.elapsed()
    }
}

impl Random for FakeHost {
    fn next_u64(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
