//! Everything outside the process: clock, randomness, disk, kernel, sockets, containers, crashes.
//!
//! Each door is a small trait with a real and a fake implementation. Nothing else in the workspace
//! touches the operating system, so the whole chain also runs on one thread from one seed.

pub mod clock;
pub mod containers;
pub mod disk;
pub mod failpoint;
pub mod fake;
pub mod kernel;
pub mod metrics;
pub mod net;
pub mod random;
pub mod real;
mod stretches;

use std::sync::Arc;

pub use clock::{Clock, Uptime};
pub use containers::Containers;
pub use disk::Disk;
pub use failpoint::Failpoints;
pub use kernel::Kernel;
pub use net::Net;
pub use random::Random;

/// The doors to the outside world, cheap to clone and pass along.
#[derive(Clone)]
pub struct Host {
    pub clock: Arc<dyn Clock>,
    pub uptime: Arc<dyn Uptime>,
    pub random: Arc<dyn Random>,
    pub disk: Arc<dyn Disk>,
    pub kernel: Arc<dyn Kernel>,
    pub net: Arc<dyn Net>,
    pub containers: Arc<dyn Containers>,
    pub failpoints: Failpoints,
}
