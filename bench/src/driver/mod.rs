//! CSI drivers, measured over nothing but their sockets, so that any driver can stand beside ours.
//!
//! Each part measures every subject before the next part begins: what stands in one row was measured
//! shortly after one another.

mod clone;
mod content;
mod crowd;
mod log;
mod many;
mod own;
mod rounds;
mod rows;
mod subject;
#[cfg(test)]
mod tests;
mod tools;
mod volume;

use std::path::Path;

use anyhow::{Context, Result, bail};
use bowline_host::Host;
use bowline_host::real::{self, RealConfig};
use tokio_util::sync::CancellationToken;

use crate::args::{DriverArgs, Part};
use crate::medium::Medium;
use crate::report::{Cell, Report};
use crate::scratch::Scratch;
use own::Own;
use subject::Subject;

/// The volume that is cloned.
const CLONED_BYTES: u64 = 10 << 30;
const COPIES: usize = 5;
/// Where a clone shares blocks, and where it is a copy, of that part of the data.
const CLONE_POOLS: [(&str, u64); 2] = [("xfs", 1), ("ext4", 4)];
/// Sparse: it only has to look large enough for a few volumes of `CLONED_BYTES`.
const CLONE_POOL_BYTES: u64 = 64 << 30;

struct Bench<'a> {
    args: &'a DriverArgs,
    host: Host,
    scratch: Scratch,
    others: Vec<Subject>,
    report: &'a mut Report,
    stop: &'a CancellationToken,
    /// Parts that some subject could not be measured in; the notes of their tables say why.
    missing: usize,
}

/// Measures what the arguments name. Whatever happens, nothing of it stays mounted, attached or on the disk.
pub async fn measure(args: &DriverArgs, report: &mut Report, stop: &CancellationToken) -> Result<()> {
    args.check()?;
    let host = real::host(RealConfig::new(std::env::temp_dir())).context("open this machine")?;
    let scratch = Scratch::make(&host)?;
    let mut bench = Bench { args, host, scratch, others: Vec::new(), report, stop, missing: 0 };
    let measured = bench.run().await;
    if let Err(error) = bench.scratch.clean().await {
        eprintln!("{error:#}");
        return measured.and(Err(error));
    }
    measured
}

impl Bench<'_> {
    async fn run(&mut self) -> Result<()> {
        for (number, endpoint) in self.args.endpoints.iter().enumerate() {
            let name = self.args.names.get(number).map(String::as_str);
            let pid = self.args.pids.get(number).copied();
            self.others.push(Subject::meet(&self.host, &endpoint.0, name, pid).await?);
        }
        if self.args.wants(Part::Rounds) {
            self.rounds().await?;
        }
        if self.args.wants(Part::Clone) {
            self.clones().await?;
        }
        if self.args.wants(Part::Many) {
            self.many().await?;
        }
        match self.missing {
            0 => Ok(()),
            missing => bail!("{missing} times a driver was not measured; the notes say why"),
        }
    }

    async fn rounds(&mut self) -> Result<()> {
        let (args, stop, host) = (self.args, self.stop, self.host.clone());
        let plan = rounds::Plan { volumes: args.volumes, parallel: args.parallel, fs: args.fs };
        let title = rows::rounds_title(plan);
        let dir = self.scratch.dir("rounds")?;
        let measure = async |s: &Subject| rounds::measure(s, &dir, plan, stop).await;
        let own = self.own(&title, &dir, &dir.join("pool"), measure).await?;
        let others = self.others(&title, measure).await?;
        let bare = tools::measure(&host, &dir, plan, stop).await;
        let bare = self.survived(&title, tools::NAME, bare)?;
        let own_wall = own.as_ref().map(|(_, measured)| measured.wall);
        for (name, measured) in own.into_iter().chain(others) {
            rows::rounds(self.report, plan, &name, &measured);
        }
        if let Some(measured) = bare {
            rows::tools(self.report, plan, &measured, own_wall);
        }
        Ok(())
    }

    async fn clones(&mut self) -> Result<()> {
        let (args, stop, host) = (self.args, self.stop, self.host.clone());
        let data_bytes = args.clone_data_mib << 20;
        let plan = clone::Plan { bytes: CLONED_BYTES, data_bytes, fs: args.fs, copies: COPIES };
        let pools = if args.program.is_some() { CLONE_POOLS.as_slice() } else { &[] };
        for (fs_type, part) in pools {
            let plan = clone::Plan { data_bytes: data_bytes / part, ..plan };
            let dir = self.scratch.dir(&format!("clone-{fs_type}"))?;
            let medium = async {
                enough_space(&host, &dir, plan.data_bytes).await?;
                Medium::make(&host, &dir, fs_type, CLONE_POOL_BYTES).await
            };
            let medium = medium.await;
            let Some(medium) = self.survived(rows::CLONE, own::NAME, medium)? else { continue };
            let measure = async |s: &Subject| cloned(s, &dir, plan, stop).await;
            let own = self.own(rows::CLONE, &dir, &medium.mounted.join("pool"), measure).await?;
            if let Some((name, cell)) = own {
                rows::clone(self.report, plan, &format!("pool on {fs_type}"), &name, cell);
            }
        }
        let dir = self.scratch.dir("clone")?;
        let measure = async |s: &Subject| cloned(s, &dir, plan, stop).await;
        for (name, cell) in self.others(rows::CLONE, measure).await? {
            rows::clone(self.report, plan, "its own pool", &name, cell);
        }
        Ok(())
    }

    async fn many(&mut self) -> Result<()> {
        let (args, stop) = (self.args, self.stop);
        let title = rows::many_title(args.many);
        let dir = self.scratch.dir("many")?;
        let size = (args.many, args.parallel);
        let measure = async |s: &Subject| many::measure(s, &dir, size, stop).await;
        let own = self.own(&title, &dir, &dir.join("pool"), measure).await?;
        let others = self.others(&title, measure).await?;
        for (name, measured) in own.into_iter().chain(others) {
            rows::many(self.report, args.many, &name, &measured);
        }
        Ok(())
    }

    /// Starts our driver on a pool if it is to be measured, and stops it again, also when measuring failed.
    async fn own<T>(
        &mut self,
        title: &str,
        dir: &Path,
        pool: &Path,
        measure: impl AsyncFn(&Subject) -> Result<T>,
    ) -> Result<Option<(String, T)>> {
        let Some(program) = &self.args.program else { return Ok(None) };
        let measured = async {
            let own = Own::start(program, dir, pool).await?;
            let measured = match own.meet(&self.host).await {
                Ok(subject) => measure(&subject).await,
                Err(error) => Err(error),
            };
            let stopped = own.stop().await;
            let measured = measured?;
            stopped?;
            Ok(measured)
        };
        let measured = measured.await;
        Ok(self.survived(title, own::NAME, measured)?.map(|measured| (own::NAME.to_owned(), measured)))
    }

    async fn others<T>(
        &mut self,
        title: &str,
        measure: impl AsyncFn(&Subject) -> Result<T>,
    ) -> Result<Vec<(String, T)>> {
        let mut all = Vec::new();
        for other in std::mem::take(&mut self.others) {
            let measured = measure(&other).await;
            let measured = self.survived(title, &other.name, measured)?;
            all.extend(measured.map(|measured| (other.name.clone(), measured)));
            self.others.push(other);
        }
        Ok(all)
    }

    /// A driver that cannot do a part keeps neither the others nor itself from the rest.
    fn survived<T>(&mut self, title: &str, subject: &str, result: Result<T>) -> Result<Option<T>> {
        if self.stop.is_cancelled() {
            bail!("interrupted");
        }
        match result {
            Ok(measured) => Ok(Some(measured)),
            Err(error) => {
                self.missing += 1;
                let note = format!("{subject}: {error:#}");
                eprintln!("{note}");
                self.report.section(title).note(note);
                Ok(None)
            }
        }
    }
}

async fn cloned(s: &Subject, dir: &Path, plan: clone::Plan, stop: &CancellationToken) -> Result<Cell> {
    match s.clones() {
        true => Ok(Cell::spread(&clone::measure(s, dir, plan, stop).await?)),
        false => Ok(Cell::Said("not advertised".to_owned())),
    }
}

/// For the source and one clone of it, and as much again for everybody else on this disk.
async fn enough_space(host: &Host, dir: &Path, data_bytes: u64) -> Result<()> {
    let space = host.disk.space(dir).await.with_context(|| format!("measure `{}`", dir.display()))?;
    let needed = data_bytes * 4;
    match space.available >= needed {
        true => Ok(()),
        false => bail!("not measured: needs {} MiB free in `{}`", needed >> 20, dir.display()),
    }
}
