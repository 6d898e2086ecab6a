//! API servers side by side on the same disk: ours, and upstream's kube-apiserver with etcd where their programs are named.

pub mod client;
mod fanout;
mod idle;
mod load;
mod objects;
pub mod ours;
pub mod process;
mod rows;
pub mod subject;
pub mod upstream;

use anyhow::{Context, Result, bail};
use tokio_util::sync::CancellationToken;

use crate::args::ApiserverArgs;
use crate::report::Report;
use subject::Subject;

/// Clients at a time for creates.
const CLIENTS: [usize; 3] = [1, 16, 64];
/// Creates of each of those rounds; the last one fills up to the wanted number of objects.
const CREATES: [usize; 2] = [1_000, 3_000];
/// Updates, patches and gets.
const CHANGES: usize = 3_000;
const GETS: usize = 10_000;
/// Lists of everything.
const LISTS: usize = 10;

pub async fn measure(
    program: &std::path::Path,
    args: &ApiserverArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let scratch =
        tempfile::Builder::new().prefix("bowline-bench-").tempdir().context("make a scratch directory")?;
    let mut subject = ours::start(program, scratch.path()).await?;
    one(&mut subject, args, report, stop).await?;
    subject.stop().await?;
    if let (Some(server), Some(etcd)) = (&args.kube_apiserver, &args.etcd) {
        let scratch = tempfile::Builder::new()
            .prefix("bowline-bench-")
            .tempdir()
            .context("make a scratch directory")?;
        let mut subject = upstream::start(server, etcd, scratch.path()).await?;
        one(&mut subject, args, report, stop).await?;
        subject.stop().await?;
        rows::ratios(report);
    } else {
        rows::alone(report);
    }
    Ok(())
}

/// Everything about one server, in an order in which each step finds what it needs.
async fn one(
    subject: &mut Subject,
    args: &ApiserverArgs,
    report: &mut Report,
    stop: &CancellationToken,
) -> Result<()> {
    let go_on = || if stop.is_cancelled() { bail!("interrupted") } else { Ok(()) };
    let mut rows = rows::Rows::new(report, subject.name, args);
    rows.memory("resident memory, idle", subject.resident_kib()?);
    let mut from = 0;
    for (clients, count) in CLIENTS.into_iter().zip(CREATES.into_iter().chain([args.objects])) {
        let to = if clients == 64 { count.max(from) } else { from + count };
        eprintln!("{}: creates {from}..{to}, {clients} clients", subject.name);
        rows.rate(
            &format!("durable creates, {clients} clients"),
            load::create(subject, from..to, clients).await?,
        );
        from = to;
        go_on()?;
    }
    eprintln!("{}: updates, patches, gets", subject.name);
    rows.rate("updates (PUT), 16 clients", load::update(subject, CHANGES, 16).await?);
    rows.rate("status patches, 16 clients", load::patch_status(subject, CHANGES, 16).await?);
    rows.rate("gets, 16 clients", load::get(subject, GETS, 16).await?);
    go_on()?;
    eprintln!("{}: lists", subject.name);
    for (what, accept) in
        [("JSON", objects::JSON), ("protobuf", objects::PROTOBUF), ("Table", objects::TABLE)]
    {
        rows.spread(&format!("list of all pods, {what}"), load::list(subject, accept, LISTS).await?);
    }
    rows.memory("resident memory, with all pods", subject.resident_kib()?);
    go_on()?;
    eprintln!("{}: {} watchers", subject.name, args.watchers);
    rows.spread("from write to event, all watchers", fanout::measure(subject, args.watchers).await?);
    rows.memory("resident memory, after all of it", subject.resident_kib()?);
    go_on()?;
    eprintln!("{}: {} idle watchers of 4 MB", subject.name, idle::WATCHERS);
    idle::fill(subject).await?;
    for (what, per_connection) in [("50 to a connection", 50), ("each with its connection", 1)] {
        let what = format!("more with {} idle watchers of 4 MB, {what}", idle::WATCHERS);
        rows.more(&what, idle::measure(subject, per_connection).await?, "≤ 100 MiB");
        go_on()?;
    }
    eprintln!("{}: cold start", subject.name);
    rows.time("cold start with all pods, to the first whole list", subject.restart(from).await?);
    Ok(())
}
