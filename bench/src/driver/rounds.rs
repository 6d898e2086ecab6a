//! Many volumes from CreateVolume to DeleteVolume, a few at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio_util::sync::CancellationToken;

use super::crowd::{self, Crowd};
use super::log::{Log, Rpc};
use super::subject::Subject;
use super::volume::{Volume, Wanted};
use crate::args::Fs;
use crate::figures::Timings;

/// How many volumes, and of which kind.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub volumes: usize,
    pub parallel: usize,
    pub fs: Fs,
}

/// What came out.
#[derive(Debug)]
pub struct Rounds {
    pub wall: Duration,
    pub timings: BTreeMap<Rpc, Timings>,
    /// What could not be undone, and why.
    pub left: Vec<String>,
}

impl Rounds {
    pub fn new(crowd: Crowd<Result<()>>, log: Log, stop: &CancellationToken) -> Result<Self> {
        let failures = crowd.ended.into_iter().filter_map(Result::err);
        let left: Vec<String> = failures.map(|error| format!("{error:#}")).collect();
        if stop.is_cancelled() {
            bail!("interrupted; left behind: {left:?}");
        }
        Ok(Self { wall: crowd.wall, timings: log.take(), left })
    }

    /// Calls that worked, of all kinds together.
    pub fn per_second(&self) -> f64 {
        let calls: usize = self.timings.values().map(Timings::count).sum();
        calls as f64 / self.wall.as_secs_f64()
    }
}

pub async fn measure(subject: &Subject, dir: &Path, plan: Plan, stop: &CancellationToken) -> Result<Rounds> {
    let log = Log::default();
    let what = format!("{}: rounds", subject.name);
    let numbers = (0..plan.volumes).collect();
    let round = |number| round(subject, &log, dir, plan.fs, number);
    let crowd = crowd::each(&what, numbers, plan.parallel, stop, round).await;
    Rounds::new(crowd, log, stop)
}

/// One volume, there and back. A failure on the way there is in the log, and the way back is gone all the same.
async fn round(subject: &Subject, log: &Log, dir: &Path, fs: Fs, number: usize) -> Result<()> {
    let wanted = Wanted::new(format!("round-{number}"), fs.size_mib() << 20, fs);
    let Ok(mut volume) = Volume::create(subject, log, wanted, dir).await else { return Ok(()) };
    let _logged = volume.up().await;
    volume.delete().await
}
