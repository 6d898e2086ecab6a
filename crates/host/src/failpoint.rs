//! Named points just before and after each effect, where a test can end the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Environment variable that arms a failpoint: `COUNT`, a number (crash at the n-th hit) or a name.
pub const ENVIRONMENT: &str = "BOWLINE_FAILPOINTS";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Plan {
    #[default]
    Off,
    /// End the process with SIGKILL at the n-th hit, counted from 1.
    CrashAtHit(u64),
    /// End the process with SIGKILL at the first hit of this name.
    CrashAtName(String),
}

impl Plan {
    /// Reads the value of [`ENVIRONMENT`].
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "" | "off" => Self::Off,
            text => text.parse().map_or_else(|_| Self::CrashAtName(text.into()), Self::CrashAtHit),
        }
    }
}

/// The failpoints of one process; clones share the count.
#[derive(Clone, Default)]
pub struct Failpoints {
    plan: Arc<Plan>,
    hits: Arc<AtomicU64>,
}

impl Failpoints {
    pub fn new(plan: Plan) -> Self {
        Self { plan: Arc::new(plan), hits: Arc::default() }
    }

    /// Marks a point in the code. Costs one atomic addition when nothing is armed.
    pub fn hit(&self, name: &str) {
        let hit = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
        let crash = match self.plan.as_ref() {
            Plan::Off => false,
            Plan::CrashAtHit(at) => hit == *at,
            Plan::CrashAtName(at) => name == at,
        };
        if crash {
            tracing::warn!(failpoint = name, hit, "crashing as asked");
            crash_now();
        }
    }

    /// How many points were passed so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

/// Dies as in a power cut: no destructor, no flush, no signal handler.
fn crash_now() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
