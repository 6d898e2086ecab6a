//! `bowline audit`: what a driver has against what the cluster says. Changes nothing on either side.

mod compare;
mod read;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::real::{self, RealConfig};
use bowline_machinery::client::{self, Environment, Line, Source};
use bowline_machinery::csi::Driver;
use bowline_machinery::flags::{duration, socket};
use bowline_machinery::{Identity, Journal, Ports};
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use clap::ValueEnum;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::terminal::Terminal;
use compare::{Finding, compare};
use read::Asked;

/// What the exit code says when something was found; 1 is an error.
const FOUND: u8 = 2;
/// In the journal, and as the user agent.
const NAME: &str = "bowline-audit";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Volumes,
    Snapshots,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Compare what a driver has with what the cluster says: no owner, missing, attached
///
/// Reads the driver's ListVolumes or ListSnapshots and the cluster's objects, and changes nothing. Exit code 0: nothing was
/// found; 2: something was; 1: it could not be read. A volume that is being made while this runs may show as one without an
/// owner: run it again before you act on it.
#[derive(Debug, clap::Args)]
pub struct Audit {
    #[arg(value_enum)]
    what: What,
    /// Socket of the CSI driver
    #[arg(long, value_name = "PATH", value_parser = socket, default_value = "/run/csi/socket")]
    csi_address: PathBuf,
    /// Kubeconfig file; without one the pod's service account is used
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Longest time for one CSI call
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    timeout: Duration,
    /// How findings are printed
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Audit {
    pub async fn run(self) -> Result<ExitCode> {
        let host = real::host(RealConfig::new("/nonexistent")).context("prepare to reach this machine")?;
        let line = Line::of(NAME, env!("CARGO_PKG_VERSION"), host.random.clone());
        let source = Source::choose(self.kubeconfig.as_deref(), &Environment::Ignored);
        let client = client::connect(&source, line, host.disk.clone()).await?;
        let ports = Ports::new(client.clone(), host.clone(), Journal::default(), CancellationToken::new());
        let (effects, driver) = (ports.questions(NAME), Driver::at(&host, &self.csi_address));
        let asked = tokio::time::timeout(self.timeout, Identity::ask(&driver, &effects, self.timeout)).await;
        let Ok(identity) = asked else {
            bail!("no CSI driver answers on `{}` within {:?}", self.csi_address.display(), self.timeout);
        };
        let identity = identity?;
        let asked = Asked { driver: &driver, identity: &identity, effects: &effects, timeout: self.timeout };
        let findings = match self.what {
            What::Volumes => volumes(&client, &asked).await?,
            What::Snapshots => snapshots(&client, &asked).await?,
        };
        self.print(&identity.name, &findings);
        Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
    }

    fn print(&self, driver: &str, findings: &[Finding]) {
        let (kind, terminal) = (self.what.one(), Terminal::default());
        if self.output == Output::Json {
            return terminal.line(json!({"driver": driver, "kind": kind, "findings": findings}).to_string());
        }
        for finding in findings {
            terminal.line(finding.line(kind));
        }
        let count = findings.len();
        terminal.line(match count {
            0 => format!("{driver}: every {kind} has its owner and its place"),
            1 => format!("{driver}: 1 finding"),
            _ => format!("{driver}: {count} findings"),
        });
    }
}

impl What {
    fn one(self) -> &'static str {
        match self {
            Self::Volumes => "volume",
            Self::Snapshots => "snapshot",
        }
    }
}

async fn volumes(client: &client::Client, asked: &Asked<'_>) -> Result<Vec<Finding>> {
    able(asked, Rpc::ListVolumes, "LIST_VOLUMES")?;
    let driver = &asked.identity.name;
    let before = read::volumes(client, driver).await?;
    let listed = asked.volumes().await.context("list the driver's volumes")?;
    let after = read::volumes(client, driver).await?;
    let publishes = asked.identity.can(Rpc::ListVolumesPublishedNodes);
    if !publishes {
        tracing::warn!(
            driver,
            "the driver does not say where volumes are published: attachments are not compared"
        );
    }
    Ok(compare(&before, &listed, &after, publishes))
}

async fn snapshots(client: &client::Client, asked: &Asked<'_>) -> Result<Vec<Finding>> {
    able(asked, Rpc::ListSnapshots, "LIST_SNAPSHOTS")?;
    let driver = &asked.identity.name;
    let before = read::contents(client, driver).await?;
    let listed = asked.snapshots().await.context("list the driver's snapshots")?;
    let after = read::contents(client, driver).await?;
    Ok(compare(&before, &listed, &after, false))
}

/// Without its list there is nothing to compare, and silence would look like health.
fn able(asked: &Asked<'_>, rpc: Rpc, name: &str) -> Result<()> {
    if !asked.identity.can(rpc) {
        bail!("CSI driver {} does not have {name}: what it has cannot be listed", asked.identity.name);
    }
    Ok(())
}
