//! Named points before, between and after the system calls of an effect, where a test can end the process.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Environment variable that arms a failpoint: `LIST`, a number (crash at the n-th hit of those around effects), `all:N`
/// (crash at the n-th hit of any, those between the system calls of the disk included), a name (crash at its first hit) or
/// `NAME#N` (crash at the n-th hit of this name).
pub const ENVIRONMENT: &str = "BOWLINE_FAILPOINTS";

/// Starts a plan that counts every point.
const ANY: &str = "all:";

/// Starts each line on standard error that names a point: `failpoint <hit> <name>`.
pub const LINE: &str = "failpoint";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Plan {
    #[default]
    Off,
    /// Name every point that is passed on standard error.
    List,
    /// End the process with SIGKILL at the n-th hit of a point around an effect, counted from 1.
    CrashAtHit(u64),
    /// End the process with SIGKILL at the n-th hit of any point, counted from 1.
    CrashAtAny(u64),
    /// End the process with SIGKILL at the n-th hit of this name, counted from 1.
    CrashAtName(String, u64),
}

impl Plan {
    /// Reads the value of [`ENVIRONMENT`].
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "" | "off" => Self::Off,
            "LIST" => Self::List,
            text => match text.parse() {
                Ok(hit) => Self::CrashAtHit(hit),
                Err(_) if text.starts_with(ANY) => text[ANY.len()..]
                    .parse()
                    .map_or_else(|_| Self::CrashAtName(text.into(), 1), Self::CrashAtAny),
                Err(_) => match text.rsplit_once('#').map(|(name, hit)| (name, hit.parse())) {
                    Some((name, Ok(hit))) => Self::CrashAtName(name.into(), hit),
                    _ => Self::CrashAtName(text.into(), 1),
                },
            },
        }
    }
}

/// The failpoints of one process; clones share the count.
#[derive(Clone, Default)]
pub struct Failpoints {
    plan: Arc<Plan>,
    hits: Arc<AtomicU64>,
    /// Hits of any point.
    any: Arc<AtomicU64>,
    /// Hits of each name; counted only for a plan that names one.
    named: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Told of every point, in simulations: there a process is not one of the operating system.
    watcher: Option<Watcher>,
}

type Watcher = Arc<dyn Fn(&str) + Send + Sync>;

impl Failpoints {
    pub fn new(plan: Plan) -> Self {
        Self { plan: Arc::new(plan), ..Self::default() }
    }

    /// Points that are told to `watcher` by name, each time one is passed.
    pub fn watched(watcher: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { watcher: Some(Arc::new(watcher)), ..Self::default() }
    }

    /// Marks a point in the code. Costs two atomic additions when nothing is armed.
    pub fn hit(&self, name: &str) {
        self.pass(name, Some(self.hits.fetch_add(1, Ordering::Relaxed) + 1));
    }

    fn pass(&self, name: &str, counted: Option<u64>) {
        let hit = self.any.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(watcher) = &self.watcher {
            watcher(name);
        }
        let crash = match self.plan.as_ref() {
            Plan::Off => return,
            Plan::List => false,
            Plan::CrashAtHit(at) => counted == Some(*at),
            Plan::CrashAtAny(at) => hit == *at,
            Plan::CrashAtName(at, count) => name == at && self.count(name) == *count,
        };
        if crash || *self.plan == Plan::List {
            // One write each, so that lines of several threads do not mix.
            let line = format!("{LINE} {hit} {name}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        if crash {
            crash_now();
        }
    }

    /// Marks a point between two system calls of the disk.
    pub(crate) fn hit_within(&self, name: &str) {
        self.pass(name, None);
    }

    /// The same, for a file. Names with digits differ from run to run and are left out.
    pub(crate) fn hit_file(&self, name: &str, path: &std::path::Path) {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if *self.plan == Plan::Off || file.bytes().any(|byte| byte.is_ascii_digit()) {
            return self.hit_within(name);
        }
        self.hit_within(&format!("{name}:{file}"));
    }

    fn count(&self, name: &str) -> u64 {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let count = named.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// How many points around effects were passed so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

/// Dies as in a power cut: no destructor, no flush, no signal handler.
fn crash_now() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_from_the_environment() {
        let table = [
            ("", Plan::Off),
            ("off", Plan::Off),
            ("LIST", Plan::List),
            ("17", Plan::CrashAtHit(17)),
            ("all:17", Plan::CrashAtAny(17)),
            ("disk.replace.created", Plan::CrashAtName("disk.replace.created".into(), 1)),
            ("disk.replace.created#3", Plan::CrashAtName("disk.replace.created".into(), 3)),
            ("odd#name", Plan::CrashAtName("odd#name".into(), 1)),
        ];
        for (text, plan) in table {
            assert_eq!(Plan::parse(text), plan, "{text}");
        }
    }
}
