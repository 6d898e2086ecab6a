//! `bowline store …`: looking after what the API server keeps, while it does not run.

mod args;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_apiserver::store::{self, Report};
use clap::Subcommand;
use serde_json::json;

use crate::installation::Installation;
use crate::terminal::Terminal;
pub use args::{EtcdArgs, StoreArgs};

/// Exit code when something was found.
const FOUND: u8 = 1;

/// Check, compact, back up or restore what the API server keeps; it must not be running
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Read everything and count it; say what cannot be read or does not fit together
    ///
    /// Exits with 0 when all is well and with 1 when something was found or the store could not be read.
    Check(Place),
    /// Write everything anew, without what was overwritten or deleted; gives room back
    Compact(Place),
    /// Save everything to one file, which must not exist yet. It holds secrets
    Backup(Backup),
    /// Bring a backup back into a data directory that has no store
    Restore(Backup),
    /// Go on with what is left of a store that has lost files. What is lost stays lost; take a copy before
    AcceptLoss(Place),
}

#[derive(clap::Args)]
pub struct Place {
    /// Where the API server keeps everything; the store is in the folder `store` of it
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bowline")]
    data_dir: PathBuf,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

#[derive(clap::Args)]
pub struct Backup {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// Stable, for programs
    Json,
}

impl StoreCommand {
    pub async fn run(self) -> Result<ExitCode> {
        crate::logging::start("warn");
        match self {
            Self::Check(place) => check(place).await,
            Self::Compact(place) => compact(place).await,
            Self::Backup(backup) => save(backup).await,
            Self::Restore(backup) => restore(backup).await,
            Self::AcceptLoss(place) => accept_loss(place).await,
        }
    }
}

impl Place {
    /// etcd has tools of its own for everything but a check.
    fn refuse_etcd(&self, instead: &str) -> Result<()> {
        if self.etcd.etcd_servers.is_empty() {
            return Ok(());
        }
        bail!("this is for a data directory; for etcd use `{instead}`")
    }

    fn store(&self) -> PathBuf {
        self.data_dir.join("store")
    }

    fn existing(&self) -> Result<PathBuf> {
        let dir = self.store();
        // Opening would create it, and a misspelt path would look like an empty store.
        if !dir.exists() {
            bail!(
                "there is no store in `{}`: name the data directory with --data-dir",
                self.data_dir.display()
            );
        }
        // Nor may a look at a store that was lost leave an empty one, which the next start would take for all there is.
        if !dir.join(store::OBJECTS).exists() && !store::is_marked(&dir) {
            bail!(
                "`{}` holds no objects: mount it if it is a mount point, or restore a backup; nothing was changed",
                dir.display()
            );
        }
        Ok(dir)
    }

    fn print(&self, text: String, value: &serde_json::Value) -> Result<()> {
        let terminal = Terminal::default();
        match self.output {
            Output::Text => terminal.line(text),
            Output::Json => terminal.line(serde_json::to_string_pretty(value).context("write JSON")?),
        }
        Ok(())
    }
}

/// The store blocks.
async fn blocking<T: Send + 'static, E>(call: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    Ok(tokio::task::spawn_blocking(call).await??)
}

async fn check(place: Place) -> Result<ExitCode> {
    let report = match place.etcd.settings(Duration::ZERO) {
        Some(settings) => store::check_etcd(&settings).await?,
        None => {
            let dir = place.existing()?;
            blocking(move || store::check_directory(&dir)).await?
        }
    };
    place.print(table(&report), &serde_json::to_value(&report).context("write JSON")?)?;
    if report.problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if place.output == Output::Text {
        let _ = writeln!(std::io::stderr(), "bowline: {} problems were found", report.problems.len());
    }
    Ok(ExitCode::from(FOUND))
}

/// Problems first: they are why one looks.
fn table(report: &Report) -> String {
    let mut lines = report.problems.clone();
    let width = report.resources.keys().map(String::len).max().unwrap_or(0).max("resource".len());
    let row = |name: &str, objects: &str, bytes: &str| format!("{name:<width$} {objects:>9} {bytes:>12}");
    lines.push(row("resource", "objects", "bytes"));
    for (name, count) in &report.resources {
        lines.push(row(name, &count.objects.to_string(), &count.bytes.to_string()));
    }
    let total = report.total;
    lines.push(row("total", &total.objects.to_string(), &total.bytes.to_string()));
    lines.push(format!("resourceVersion {}", report.resource_version));
    lines.join("\n")
}

async fn compact(place: Place) -> Result<ExitCode> {
    place.refuse_etcd("etcdctl defrag")?;
    let dir = place.existing()?;
    let (before, after) = blocking(move || store::compact(&dir)).await?;
    let text = format!("{before} bytes on disk before, {after} after");
    place.print(text, &json!({"bytesBefore": before, "bytesAfter": after}))?;
    Ok(ExitCode::SUCCESS)
}

async fn save(backup: Backup) -> Result<ExitCode> {
    let Backup { file, place } = backup;
    place.refuse_etcd("etcdctl snapshot save")?;
    let dir = place.existing()?;
    let path = file.clone();
    let saved = blocking(move || store::backup(&dir, &path)).await?;
    let text = format!(
        "{} objects at resourceVersion {} saved to {}",
        saved.objects,
        saved.resource_version,
        file.display()
    );
    place.print(text, &serde_json::to_value(&saved).context("write JSON")?)?;
    Ok(ExitCode::SUCCESS)
}

async fn restore(backup: Backup) -> Result<ExitCode> {
    let Backup { file, place } = backup;
    place.refuse_etcd("etcdutl snapshot restore")?;
    let dir = place.store();
    let target = dir.clone();
    let restored = blocking(move || store::restore(&file, &target)).await?;
    let text = format!(
        "{} objects of resourceVersion {} restored to {}",
        restored.objects,
        restored.resource_version,
        dir.display()
    );
    place.print(text, &serde_json::to_value(&restored).context("write JSON")?)?;
    Ok(ExitCode::SUCCESS)
}

async fn accept_loss(place: Place) -> Result<ExitCode> {
    place.refuse_etcd("etcdutl snapshot restore")?;
    let dir = place.store();
    if !dir.exists() && !Installation::is_at(&place.data_dir) {
        bail!("`{}` is no data directory: name it with --data-dir", place.data_dir.display());
    }
    let loss = blocking(move || store::accept_loss(&dir)).await?;
    let left = format!("{} objects at resourceVersion {}", loss.objects, loss.resource_version);
    let text = if loss.lost.is_empty() {
        format!("nothing is lost: {left}")
    } else {
        format!("accepted: {}; {left} are left", loss.lost.join("; "))
    };
    place.print(text, &serde_json::to_value(&loss).context("write JSON")?)?;
    Ok(ExitCode::SUCCESS)
}
