//! Memory and ListVolumes of a driver that has many volumes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bowline_proto::csi::v1 as csi;
use tokio_util::sync::CancellationToken;

use super::crowd;
use super::log::{Log, Rpc};
use super::subject::{Subject, why};
use super::volume::{Volume, Wanted};
use crate::args::Fs;
use crate::figures::Timings;
use crate::memory::{self, Resident};

const VOLUME_BYTES: u64 = 64 << 20;
pub const PAGE: i32 = 1_000;
/// Times each page is asked for.
pub const ASKED: usize = 20;
/// More pages than any list here has: a driver whose tokens lead in a circle ends there.
const PAGES_MAX: usize = 10_000;

pub struct Many {
    pub creates: Timings,
    pub wall: Duration,
    pub idle: Option<Resident>,
    pub resident: Option<Resident>,
    pub pages: Option<Pages>,
    pub left: Vec<String>,
}

pub struct Pages {
    pub first: Timings,
    /// None when the driver gives no token to go on with.
    pub middle: Option<Timings>,
    /// Entries that all pages together had.
    pub entries: usize,
}

pub async fn measure(
    subject: &Subject,
    dir: &Path,
    (count, parallel): (usize, usize),
    stop: &CancellationToken,
) -> Result<Many> {
    let resident = || subject.pid.map(memory::resident).transpose();
    let idle = resident()?;
    let log = Log::default();
    let create = |number: usize| {
        let wanted = Wanted::new(format!("many-{number}"), VOLUME_BYTES, Fs::Ext4);
        Volume::create(subject, &log, wanted, dir)
    };
    let what = format!("{}: volumes created", subject.name);
    let made = crowd::each(&what, (0..count).collect(), parallel, stop, create).await;
    let wall = made.wall;
    let volumes: Vec<Volume<'_>> = made.ended.into_iter().filter_map(Result::ok).collect();
    let seen = look(subject, stop).await.and_then(|pages| Ok((pages, resident()?)));
    let what = format!("{}: volumes deleted", subject.name);
    // Also after Ctrl-C: what was made goes.
    let never = CancellationToken::new();
    let gone = crowd::each(&what, volumes, parallel, &never, Volume::delete).await;
    let (pages, resident) = seen?;
    let left = gone.ended.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    let creates = log.take().remove(&Rpc::CreateVolume).unwrap_or_default();
    Ok(Many { creates, wall, idle, resident, pages, left })
}

async fn look(subject: &Subject, stop: &CancellationToken) -> Result<Option<Pages>> {
    if stop.is_cancelled() {
        bail!("interrupted");
    }
    if !subject.lists() {
        return Ok(None);
    }
    let (tokens, entries) = walk(subject).await.context("walk through the pages of ListVolumes")?;
    let first = ask(subject, "").await?;
    let middle = match tokens.get(tokens.len() / 2) {
        Some(token) => Some(ask(subject, token).await?),
        None => None,
    };
    Ok(Some(Pages { first, middle, entries }))
}

/// The tokens of all pages but the first, and how many entries there are.
async fn walk(subject: &Subject) -> Result<(Vec<String>, usize)> {
    let (mut tokens, mut entries) = (Vec::new(), 0);
    let mut token = String::new();
    for _ in 0..PAGES_MAX {
        let page = list(subject, &token).await?;
        entries += page.entries.len();
        if page.next_token.is_empty() {
            return Ok((tokens, entries));
        }
        token.clone_from(&page.next_token);
        tokens.push(page.next_token);
    }
    bail!("no end after {PAGES_MAX} pages")
}

async fn ask(subject: &Subject, token: &str) -> Result<Timings> {
    let mut times = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        let began = Instant::now();
        list(subject, token).await?;
        times.push(began.elapsed());
    }
    Ok(times.into_iter().collect())
}

async fn list(subject: &Subject, token: &str) -> Result<csi::ListVolumesResponse> {
    let request = csi::ListVolumesRequest { max_entries: PAGE, starting_token: token.to_owned() };
    Ok(subject.driver.controller().list_volumes(request).await.map_err(why)?.into_inner())
}
