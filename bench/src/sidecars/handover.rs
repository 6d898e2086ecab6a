//! From the end of all sidecars to the first claim that their standbys provision, with the default timings of leases.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;

use super::cluster::Cluster;
use super::phases;
use super::processes::Crew;
use crate::args::{SidecarsArgs, Subjects};
use crate::figures::Timings;
use crate::report::{Cell, Section};

/// Time for a standby to fill its caches.
const WARM: Duration = Duration::from_secs(5);

pub async fn measure(
    cluster: &mut Cluster,
    mut leader: Crew,
    program: &Path,
    args: &SidecarsArgs,
    subject: Subjects,
    section: &mut Section,
) -> Result<()> {
    let (mut killed, mut asked, mut replica) = (Timings::default(), Timings::default(), 1);
    for _ in 0..args.rounds {
        for (signal, times) in [(Signal::KILL, &mut killed), (Signal::TERM, &mut asked)] {
            replica += 1;
            let standby = Crew::start(cluster, program, args, subject, replica)?;
            tokio::time::sleep(WARM).await;
            let begun = Instant::now();
            leader.end_by(signal).await?;
            phases::first_claim(cluster).await?;
            times.worked(begun.elapsed());
            leader = standby;
        }
    }
    for (signal, times) in [("SIGKILL", killed), ("SIGTERM", asked)] {
        let seconds = times.quantile(0.5).unwrap_or_default().as_secs_f64();
        let what = format!("{signal} of all sidecars to a claim Bound by their standbys");
        section.put(&what, subject.name(), Cell::Seconds(seconds));
    }
    leader.stop().await
}
