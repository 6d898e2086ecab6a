//! How a store is set up.

use std::sync::Arc;
use std::time::Duration;

use bowline_host::Clock;

use super::state::Limits;

/// As etcd has it.
const QUOTA: u64 = 2 << 30;
/// The files of the embedded store grow in steps of up to this size.
const FREE_MIN: u64 = 64 << 20;

/// Settings of any store; etcd has a quota and a disk of its own.
#[derive(Clone)]
pub struct Options {
    pub limits: Limits,
    /// Bytes that all objects together may take; 0 is no limit.
    pub quota: u64,
    /// Bytes of the disk that writes leave free, so that deletes and the upkeep of files still have room.
    pub free_min: u64,
    /// When events go away by themselves; never without.
    pub expiry: Option<Expiry>,
}

/// Events live this long after they were last written.
#[derive(Clone)]
pub struct Expiry {
    pub ttl: Duration,
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), quota: QUOTA, free_min: FREE_MIN, expiry: None }
    }
}

/// Whether objects of a kind go away by themselves. Both spellings of events may share one table.
pub fn expires(resource: &str) -> bool {
    matches!(resource, "events" | "events.events.k8s.io")
}
