//! The deterministic world: the whole chain, unchanged, on one thread of paused time from one seed.

pub mod jitter;
