//! The real world: Linux 5.12 or later (mount_setattr), as root.
//!
//! [`host`] opens every door; [`shim`] holds the hidden subcommands that containers run in.

mod activity;
mod alone;
mod attend;
mod bindings;
mod bounded_log;
mod cgroups;
mod changed;
mod clock;
mod containers;
mod descend;
mod devices;
mod disk;
mod enter;
mod exec;
mod ext4;
mod extents;
mod filesystems;
mod formatting;
mod freezing;
mod gone;
mod group;
mod growing;
mod holders;
mod identity;
mod inherited;
mod init;
mod kernel;
mod labels;
mod lock;
mod logs;
mod lookup;
mod loops;
mod machine;
mod masks;
mod message;
mod mountinfo;
mod mounts;
mod net;
mod owned;
mod private;
mod probe;
mod process;
mod process_lock;
mod random;
mod raw;
mod record;
mod replace;
mod rootfs;
mod sealed;
mod seccomp;
pub mod shim;
mod skeleton;
mod space;
mod terminal;
mod tools;
mod trees;
mod unreadable;
mod watch;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use bounded_log::bound_log;
pub use clock::now;
pub use machine::{end_on_next_signal, give_memory_back, hostname, is_root, raise_open_files};
pub use private::{
    new_private_file, private_by_default, private_dir, private_file, private_log, private_parents, tighten,
    write_private,
};
pub use process_lock::{ProcessLock, Taken, lock_for_process};
pub use space::{allocated_bytes, data_end, free_bytes, preallocate};

use crate::Host;
use crate::failpoint::{ENVIRONMENT, Failpoints, Plan};
use crate::kernel::{KernelError, Result};

/// What the doors need to know of this installation.
#[derive(Debug, Clone)]
pub struct RealConfig {
    /// Records of containers live below it.
    pub state_dir: PathBuf,
    /// The program with the `container-…` subcommands of [`shim`]; this one by default.
    pub shim: Option<PathBuf>,
}

impl RealConfig {
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self { state_dir: state_dir.into(), shim: None }
    }
}

/// Opens the doors to this machine. [`ENVIRONMENT`] arms the failpoints.
pub fn host(config: RealConfig) -> io::Result<Host> {
    let shim = config.shim.map_or_else(std::env::current_exe, Ok)?;
    let plan = std::env::var(ENVIRONMENT).unwrap_or_default();
    let failpoints = Failpoints::new(Plan::parse(&plan));
    Ok(Host {
        clock: Arc::new(clock::RealClock),
        uptime: Arc::new(clock::RealClock),
        random: Arc::new(random::RealRandom::new()?),
        disk: Arc::new(disk::RealDisk::new(failpoints.clone())),
        kernel: Arc::new(kernel::RealKernel::default()),
        net: Arc::new(net::RealNet),
        containers: Arc::new(containers::RealContainers::new(&config.state_dir, shim)),
        failpoints,
    })
}

/// Runs a blocking call on a thread made for waiting. Dropping the future does not stop the call.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(call).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// [`blocking`] for calls into the kernel.
async fn blocking_kernel<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let gone =
        |error: tokio::task::JoinError| Err(KernelError::other("run a kernel call", error.to_string()));
    tokio::task::spawn_blocking(call).await.unwrap_or_else(gone)
}
