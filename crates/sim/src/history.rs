//! One history: a cluster, a workload, faults, and the end at which nothing may be left.

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::fault::{Coverage, Fault, Opportunity, faults};
use crate::workload::{Workload, delete_all};

/// Virtual time within which everything settles after the last fault: the longest back-offs are five minutes.
const SETTLES: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(500);

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(live(seed, faults)))
}

async fn live(seed: u64, faults: &[Fault]) -> Outcome {
    let begun = Instant::now();
    let cluster = Cluster::start(seed, faults).await;
    Workload::new(seed).run(&cluster).await;
    cluster.shared.plan().end();
    cluster.shared.say("faults end");
    let settled = settle(&cluster).await;
    cluster.end();
    let mut plan = cluster.shared.plan();
    let mut violations = std::mem::take(&mut cluster.shared.oracle().violations);
    violations.extend(settled);
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
    let deadline = Instant::now() + SETTLES;
    loop {
        let left = {
            let mut oracle = cluster.shared.oracle();
            oracle.look();
            let retained = oracle.retained();
            oracle.left(&retained)
        };
        if left.is_empty() {
            return left;
        }
        if Instant::now() >= deadline {
            return left.into_iter().map(|what| format!("left after {SETTLES:?}: {what}")).collect();
        }
        tokio::time::sleep(LOOK).await;
    }
}
