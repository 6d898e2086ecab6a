//! Many histories and their coverage.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// Over the traces of all histories, in any order: two runs of the same code give the same.
    pub hash: u64,
    pub took: Duration,
    /// Time spent in histories, by all threads together.
    pub worked: Duration,
}

/// A seed and the faults of its history.
type Job = (u64, Vec<Fault>);

/// What is to be run.
pub struct Campaign<'a> {
    pub seeds: std::ops::Range<u64>,
    pub threads: usize,
    /// Whether every cell of the table is to be reached.
    pub complete: bool,
    /// The first failure ends the campaign.
    pub fail_fast: bool,
    /// Told after each history, with how many there will be.
    pub progress: &'a (dyn Fn(&Report, u64) + Sync),
}

/// Runs the histories of the seeds on all cores, then goes for every cell of the table that none has reached with
/// histories of that fault alone.
pub fn run(campaign: &Campaign<'_>) -> Report {
    let (begun, mut report) = (Instant::now(), Report::default());
    let seeds = campaign.seeds.clone();
    let after = seeds.end;
    report.work(seeds.map(|seed| (seed, faults(seed))).collect(), campaign);
    let tries = if campaign.complete { TRIES } else { 0 };
    for seed in after..after + tries {
        let one = |(kind, effect)| (seed, table::reaching(kind, effect));
        report.work(report.empty().into_iter().map(one).collect(), campaign);
    }
    report.took = begun.elapsed();
    report
}

/// Most histories that are tried for a cell that no history has reached.
const TRIES: u64 = 12;

/// One history of so many is run twice: what is different the second time cannot be replayed either.
const TWICE: u64 = 50;

/// A history, and for some seeds whether it is the same again.
fn judged(seed: u64, faults: &[Fault]) -> Outcome {
    let mut first = outcome(seed, faults);
    if seed.is_multiple_of(TWICE) {
        let again = outcome(seed, faults);
        first.violations.extend(difference(&first.trace, &again.trace));
    }
    first
}

/// Where two runs of one history part.
fn difference(one: &[String], other: &[String]) -> Option<String> {
    let same = one.iter().zip(other).take_while(|(line, again)| line == again).count();
    let at = |trace: &[String]| trace.get(same).map_or("the end".to_owned(), |line| line.trim().to_owned());
    let differs = one.len() != other.len() || same < one.len();
    differs.then(|| {
        let (line, again) = (at(one), at(other));
        format!("REPLAY: the same seed gives another history from line {same} on: `{line}`, then `{again}`")
    })
}

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
    fn work(&mut self, jobs: Vec<Job>, campaign: &Campaign<'_>) {
        let next = AtomicUsize::new(0);
        let total = self.histories + jobs.len() as u64;
        let report = Mutex::new(&mut *self);
        std::thread::scope(|scope| {
            for _ in 0..campaign.threads.max(1) {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let started = Instant::now();
                        let outcome = judged(job.0, &job.1);
                        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                        report.worked += started.elapsed();
                        report.add(job, outcome);
                        (campaign.progress)(&report, total);
                        if campaign.fail_fast && !report.failures.is_empty() {
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
        let mut hasher = DefaultHasher::new();
        outcome.trace.hash(&mut hasher);
        self.hash = self.hash.wrapping_add(hasher.finish());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the replay command that is printed for a failing seed can be read again.
    #[test]
    fn every_fault_can_be_read_back_from_how_it_is_printed() {
        let all: Vec<Fault> =
            table::cells().into_iter().map(|(kind, effect)| Fault { kind, effect, nth: 2 }).collect();
        let printed: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(Fault::parse_all(&printed.join("; ")), Some(all));
    }

    /// Goal: a seed that cannot be replayed is a failure of its own.
    #[test]
    fn two_runs_that_part_are_told_apart() {
        let trace = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        let one = trace(&["bind", "mount"]);
        assert_eq!(difference(&one, &one), None);
        let other = difference(&one, &trace(&["bind", "unmount"])).unwrap();
        assert!(other.contains("line 1") && other.contains("`mount`, then `unmount`"), "{other}");
        let longer = difference(&one, &trace(&["bind", "mount", "unmount"])).unwrap();
        assert!(longer.contains("`the end`, then `unmount`"), "{longer}");
    }
}
