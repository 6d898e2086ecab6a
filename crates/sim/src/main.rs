//! `make sim`: runs the histories of many seeds, or replays one.
//!
//! `HISTORIES` says how many, `FIRST` from which seed on. `FAIL_FAST` ends at the first failure. `SEED`
//! replays one with its trace and shrinks its faults; `FAULTS` gives it others than its own, as they are printed, with `;` between.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bowline_sim::campaign::{self, Campaign, Report};
use bowline_sim::fault::{Fault, faults, table};
use bowline_sim::shrink::shrink;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Enough for every cell of the table.
const HISTORIES: u64 = 1000;
/// How many failing seeds are shrunk.
const SHRUNK: usize = 3;
/// Lines of a failing history that are shown.
const TAIL: usize = 80;
/// How often a long run says how far it is: on a terminal in one line, elsewhere in a new one.
const PROGRESS: Duration = Duration::from_secs(1);
const PROGRESS_IN_LOG: Duration = Duration::from_secs(60);
/// Goes to the begin of a terminal's line and clears it.
const CLEAR: &str = "\r\x1b[K";

fn main() -> io::Result<ExitCode> {
    let number = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let parsed = |name: &str, otherwise: u64| match number(name).map(|text| text.parse()) {
        None => Ok(otherwise),
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(io::Error::other(format!("{name} is not a number"))),
    };
    if number("SEED").is_some() {
        let seed = parsed("SEED", 1)?;
        let given = number("FAULTS").map(|text| Fault::parse_all(&text).ok_or(text)).transpose();
        let given = given.map_err(|text| io::Error::other(format!("FAULTS: no such faults: `{text}`")))?;
        return replay(seed, given.unwrap_or_else(|| faults(seed)));
    }
    let (first, histories) = (parsed("FIRST", 1)?, parsed("HISTORIES", HISTORIES)?);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let whole = histories >= HISTORIES;
    let said = Mutex::new(Instant::now());
    let report = campaign::run(&Campaign {
        seeds: first..first + histories,
        threads,
        complete: whole,
        fail_fast: number("FAIL_FAST").is_some(),
        progress: &|report, total| progress(&said, report, total),
    });
    tell(&report, whole)
}

/// A line from time to time, so that long runs show how far they are.
fn progress(said: &Mutex<Instant>, report: &Report, total: u64) {
    let (mut out, mut said) = (io::stdout(), said.lock().unwrap_or_else(PoisonError::into_inner));
    let terminal = out.is_terminal();
    if said.elapsed() < if terminal { PROGRESS } else { PROGRESS_IN_LOG } {
        return;
    }
    *said = Instant::now();
    let failing: Vec<String> = report.failures.iter().map(|failure| failure.seed.to_string()).collect();
    let failing = if failing.is_empty() { "none".into() } else { failing.join(" ") };
    let text = format!("{} of {total} histories, failing seeds: {failing}", report.histories);
    // Whether anything reads it is not our concern.
    let _ = if terminal {
        write!(out, "{CLEAR}{text}").and_then(|()| out.flush())
    } else {
        writeln!(out, "{text}")
    };
}

/// Says what the histories came to; fails on a broken promise, an empty cell or an effect without a row.
fn tell(report: &Report, whole: bool) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        write!(out, "{CLEAR}")?;
    }
    writeln!(out, "How often each fault struck each effect:\n{}", report.table())?;
    for (effect, why) in table::reasons() {
        writeln!(out, "left out: {effect}: {why}")?;
    }
    let rate = report.histories as f64 / report.worked.as_secs_f64();
    let (count, took, hash) = (report.histories, report.took.as_secs_f64(), report.hash);
    writeln!(out, "{count} histories in {took:.1} s, {rate:.1} per second and core, all traces {hash:016x}")?;
    let mut failed = false;
    for (moment, effect) in report.unknown() {
        failed = true;
        writeln!(out, "`{effect}` ({moment:?}) has no row in fault/table.rs")?;
    }
    if whole {
        for (kind, effect) in report.empty() {
            failed = true;
            writeln!(out, "empty cell: {} at `{effect}`", kind.name())?;
        }
    }
    for failure in &report.failures {
        failed = true;
        let faults: Vec<String> = failure.faults.iter().map(ToString::to_string).collect();
        let (seed, broken) = (failure.seed, failure.violations.join("; "));
        writeln!(out, "seed {seed}: {broken} (make sim SEED={seed} FAULTS='{}')", faults.join("; "))?;
    }
    // With FAIL_FAST, the seed of the first failure is all that is asked for.
    let shrunk = if std::env::var_os("FAIL_FAST").is_some() { 0 } else { SHRUNK };
    for failure in report.failures.iter().take(shrunk) {
        show(&mut out, failure.seed, failure.faults.clone())?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The fewest faults of a failing seed, and how it ends with them.
fn show(out: &mut impl Write, seed: u64, all: Vec<Fault>) -> io::Result<()> {
    let (left, broken) = shrink(seed, all);
    let fewest: Vec<String> = left.iter().map(ToString::to_string).collect();
    writeln!(out, "\nreplay with the fewest faults: make sim SEED={seed} FAULTS='{}'", fewest.join("; "))?;
    let from = broken.trace.len().saturating_sub(TAIL);
    broken.trace[from..].iter().try_for_each(|line| writeln!(out, "{line}"))?;
    broken.violations.iter().try_for_each(|text| writeln!(out, "  BROKEN {text}"))
}

fn replay(seed: u64, planned: Vec<Fault>) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    writeln!(out, "seed {seed}, planned:")?;
    planned.iter().try_for_each(|fault| writeln!(out, "  {fault}"))?;
    let outcome = campaign::outcome(seed, &planned);
    outcome.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{:.0} s of virtual time", outcome.virtual_time.as_secs_f64())?;
    if outcome.violations.is_empty() {
        writeln!(out, "every promise holds")?;
        return Ok(ExitCode::SUCCESS);
    }
    outcome.violations.iter().try_for_each(|text| writeln!(out, "BROKEN {text}"))?;
    show(&mut out, seed, planned)?;
    Ok(ExitCode::FAILURE)
}
