//! Many histories, their coverage, and the fewest faults that break a promise.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fault::{Coverage, Fault, Kind, Opportunity, faults, table};
use crate::history::{Outcome, with_faults};

/// A history that broke a promise.
pub struct Failure {
    pub seed: u64,
    pub faults: Vec<Fault>,
    pub violations: Vec<String>,
}

/// What many histories came to.
#[derive(Default)]
pub struct Report {
    pub histories: u64,
    pub struck: Coverage,
    pub seen: BTreeMap<(Opportunity, String), u64>,
    pub failures: Vec<Failure>,
    /// The first failure ends the campaign.
    fail_fast: bool,
    pub took: Duration,
    /// Time spent in histories, by all threads together.
    pub worked: Duration,
}

/// A seed and the faults of its history.
type Job = (u64, Vec<Fault>);

/// Runs the histories of these seeds on all cores, then goes for every cell of the table that none has reached with
/// histories of that one fault.
pub fn run(seeds: std::ops::Range<u64>, threads: usize, complete: bool, fail_fast: bool) -> Report {
    let (begun, mut report) = (Instant::now(), Report { fail_fast, ..Report::default() });
    let after = seeds.end;
    report.work(seeds.map(|seed| (seed, faults(seed))).collect(), threads);
    let tries = if complete { TRIES } else { 0 };
    for seed in after..after + tries {
        let one = |(kind, effect)| (seed, vec![Fault { kind, effect, nth: 0 }]);
        report.work(report.empty().into_iter().map(one).collect(), threads);
    }
    report.took = begun.elapsed();
    report
}

/// Most histories that are tried for a cell that no history has reached.
const TRIES: u64 = 12;

/// One history; a panic in it breaks every promise.
pub fn outcome(seed: u64, faults: &[Fault]) -> Outcome {
    let lived = catch_unwind(AssertUnwindSafe(|| with_faults(seed, faults)));
    let failed = |why: String| Outcome { violations: vec![why], ..Outcome::default() };
    match lived {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => failed(format!("no runtime: {error}")),
        Err(_) => failed("the history panicked".into()),
    }
}

impl Report {
    fn work(&mut self, jobs: Vec<Job>, threads: usize) {
        let next = AtomicUsize::new(0);
        let report = Mutex::new(&mut *self);
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let started = Instant::now();
                        let outcome = outcome(job.0, &job.1);
                        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                        report.worked += started.elapsed();
                        report.add(job, outcome);
                        if report.fail_fast && !report.failures.is_empty() {
                            return;
                        }
                    }
                });
            }
        });
        self.failures.sort_by_key(|failure| failure.seed);
    }

    fn add(&mut self, (seed, faults): &Job, outcome: Outcome) {
        self.histories += 1;
        for (cell, count) in outcome.struck {
            *self.struck.entry(cell).or_default() += count;
        }
        for (effect, count) in outcome.seen {
            *self.seen.entry(effect).or_default() += count;
        }
        if !outcome.violations.is_empty() {
            let (seed, faults) = (*seed, faults.clone());
            self.failures.push(Failure { seed, faults, violations: outcome.violations });
        }
    }

    /// Cells of the table that no fault reached.
    pub fn empty(&self) -> Vec<(Kind, &'static str)> {
        table::cells().into_iter().filter(|cell| !self.struck.contains_key(cell)).collect()
    }

    /// Effects that have no row in the table.
    pub fn unknown(&self) -> BTreeSet<(Opportunity, String)> {
        let known = |(moment, name): &(Opportunity, String)| table::knows(*moment, name);
        self.seen.keys().filter(|effect| !known(effect)).cloned().collect()
    }

    /// How often each fault struck each effect, one effect a line.
    pub fn table(&self) -> String {
        let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((kind, effect), count) in &self.struck {
            rows.entry(effect).or_default().push(format!("{} {count}", kind.name()));
        }
        let line = |(effect, cells): (&str, Vec<String>)| format!("{effect:<36} {}\n", cells.join(", "));
        rows.into_iter().map(line).collect()
    }
}

/// The fewest of a seed's faults that still break a promise: each is left out in turn, until none can be.
pub fn shrink(seed: u64, mut left: Vec<Fault>) -> (Vec<Fault>, Outcome) {
    let mut broken = outcome(seed, &left);
    let mut at = 0;
    while at < left.len() {
        let mut fewer = left.clone();
        fewer.remove(at);
        let without = outcome(seed, &fewer);
        if without.violations.is_empty() {
            at += 1;
        } else {
            (left, broken) = (fewer, without);
        }
    }
    (left, broken)
}
