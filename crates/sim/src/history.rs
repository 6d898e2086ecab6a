//! One history: a cluster, a workload, faults, and the end at which nothing may be left.

use std::time::Duration;

use bowline_machinery::client::shared;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::fault::{Coverage, Fault, Kind, Opportunity, faults};
use crate::oracle::Logs;
use crate::workload::{Workload, delete_all, delete_retained};

/// Virtual time within which everything settles after the last fault: the longest back-offs are five minutes.
const SETTLES: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(500);
/// How long nothing must come back once all is gone.
const QUIET: Duration = Duration::from_secs(3);
/// The same where a write may still land.
const QUIET_AFTER_LATE: Duration = Duration::from_secs(80);

/// What became of one history.
#[derive(Default)]
pub struct Outcome {
    pub violations: Vec<String>,
    pub trace: Vec<String>,
    pub struck: Coverage,
    pub seen: std::collections::BTreeMap<(Opportunity, String), u64>,
    pub virtual_time: Duration,
}

/// The history of a seed.
pub fn history(seed: u64) -> std::io::Result<Outcome> {
    with_faults(seed, &faults(seed))
}

/// The history of a seed with other faults than its own.
pub fn with_faults(seed: u64, faults: &[Fault]) -> std::io::Result<Outcome> {
    let _sharing = shared::share();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(live(seed, faults)))
}

async fn live(seed: u64, faults: &[Fault]) -> Outcome {
    let (begun, logs) = (Instant::now(), Logs::of(seed));
    let cluster = Cluster::start(seed, faults).await;
    let mut workload = Workload::new(seed);
    let deleted = workload.run(&cluster).await;
    cluster.shared.plan().end();
    cluster.shared.say("faults end");
    let stuck = if deleted { Vec::new() } else { workload.last_journey(&cluster, SETTLES).await };
    let settled = settle(&cluster).await;
    cluster.end();
    let mut plan = cluster.shared.plan();
    let mut violations = std::mem::take(&mut cluster.shared.oracle().violations);
    violations.extend(stuck);
    violations.extend(settled);
    violations.extend(logs.violations());
    Outcome {
        violations,
        trace: cluster.shared.trace(),
        struck: std::mem::take(&mut plan.struck),
        seen: std::mem::take(&mut plan.seen),
        virtual_time: begun.elapsed(),
    }
}

/// Deletes everything and waits until nothing is left; what is left when time is up is a violation.
async fn settle(cluster: &Cluster) -> Vec<String> {
    delete_all(cluster).await;
    let late = cluster.shared.plan().struck.keys().any(|(kind, _)| *kind == Kind::LateLanding);
    let quiet = if late { QUIET_AFTER_LATE } else { QUIET };
    let lit = cluster.dark_until().unwrap_or_else(Instant::now);
    let deadline = lit + SETTLES;
    let mut empty_since = None;
    loop {
        delete_retained(cluster).await;
        let left = {
            let mut oracle = cluster.shared.oracle();
            oracle.look();
            let retained = oracle.retained();
            oracle.left(&retained)
        };
        let since = *empty_since.get_or_insert_with(Instant::now);
        if left.is_empty() && since.elapsed() >= quiet {
            return left;
        }
        if !left.is_empty() {
            empty_since = None;
        }
        if Instant::now() >= deadline {
            return left.into_iter().map(|what| format!("left after {SETTLES:?}: {what}")).collect();
        }
        tokio::time::sleep(LOOK).await;
    }
}
