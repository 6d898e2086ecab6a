//! CreateVolume from another volume.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tokio_util::sync::CancellationToken;

use super::content::Content;
use super::log::{Log, Rpc};
use super::subject::Subject;
use super::volume::{Volume, Wanted};
use crate::args::Fs;
use crate::figures::Timings;

/// What is cloned.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub bytes: u64,
    pub data_bytes: u64,
    pub fs: Fs,
    pub copies: usize,
}

/// Times of CreateVolume. The source is in nobody's use meanwhile, and each clone goes before the next.
pub async fn measure(subject: &Subject, dir: &Path, plan: Plan, stop: &CancellationToken) -> Result<Timings> {
    let unmeasured = Log::default();
    let wanted = Wanted::new("source".to_owned(), plan.bytes, plan.fs);
    eprintln!("{}: clone: writing {} MiB into the source", subject.name, plan.data_bytes >> 20);
    let mut source = Volume::create(subject, &unmeasured, wanted, dir).await.context("make the source")?;
    let measured = copies(subject, dir, &mut source, plan, stop).await;
    let removed = source.delete().await;
    let measured = measured?;
    removed?;
    Ok(measured)
}

async fn copies(
    subject: &Subject,
    dir: &Path,
    source: &mut Volume<'_>,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Timings> {
    let content = Content { bytes: plan.data_bytes, fs: plan.fs };
    source.up().await.context("publish the source")?;
    content.write(source.target()).await.context("write into the source")?;
    source.down().await?;
    let (log, rest) = (Log::default(), Log::default());
    for number in 0..plan.copies {
        if stop.is_cancelled() {
            bail!("interrupted");
        }
        let name = format!("clone-{number}");
        let source = Some(source.id().to_owned());
        let wanted = Wanted { source, ..Wanted::new(name, plan.bytes, plan.fs) };
        let Ok(clone) = Volume::create(subject, &log, wanted, dir).await else { break };
        let mut clone = clone.logged_by(&rest);
        eprintln!("{}: clone: {} of {}", subject.name, number + 1, plan.copies);
        // A clone that holds something else was fast for nothing.
        let held = if number == 0 { holds(&mut clone, content).await } else { Ok(()) };
        clone.delete().await?;
        held?;
    }
    Ok(log.take().remove(&Rpc::CreateVolume).unwrap_or_default())
}

async fn holds(clone: &mut Volume<'_>, content: Content) -> Result<()> {
    clone.up().await.context("publish the clone")?;
    content.check(clone.target()).await.context("read from the clone")
}
