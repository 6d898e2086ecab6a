//! Two clocks: one tells the time of day, which people and other machines may set; one only counts. Waiting goes through
//! `tokio::time`, which a simulation pauses.

use std::time::Duration;

use jiff::Timestamp;

/// Tells the time of day, for timestamps that people read. It may jump, so no duration is measured with it.
/// Decisions receive it as an argument and never ask.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// Counts since the machine started, also while it is suspended, and never jumps: for everything that lasts.
pub trait Uptime: Send + Sync {
    fn uptime(&self) -> Duration;
}
