//! Wall-clock time. Waiting goes through `tokio::time`, which a simulation pauses.

use jiff::Timestamp;

/// Tells the time. Decisions receive it as an argument and never ask.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}
