//! Programs alone, on our API server: what each takes when it is idle, and how long a standby takes to follow a leader.

mod cluster;
mod handover;
mod memory;

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::args::ProgramsArgs;
use crate::report::Report;
use cluster::Cluster;

pub async fn measure(
    program: &Path,
    args: &ProgramsArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let mut cluster = Cluster::start(program).await?;
    memory::measure(&mut cluster, args, report, stop).await?;
    handover::measure(&mut cluster, args, report, stop).await?;
    cluster.stop().await
}

/// Whose program it is.
#[derive(Clone)]
enum By {
    /// A subcommand of this program.
    Us(PathBuf),
    Upstream(PathBuf),
}

impl By {
    fn subject(&self) -> &'static str {
        match self {
            Self::Us(_) => crate::startup::SUBJECT,
            Self::Upstream(_) => "upstream",
        }
    }

    /// Ours, and upstream's if there is one.
    fn both(ours: &Path, upstream: Option<&PathBuf>) -> Vec<Self> {
        let upstream = upstream.map(|path| Self::Upstream(path.clone()));
        [Self::Us(ours.to_owned())].into_iter().chain(upstream).collect()
    }
}
