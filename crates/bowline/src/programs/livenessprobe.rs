//! `livenessprobe`: answers /healthz with what the driver answers to Probe.

use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_machinery::flags::{EndpointArgs, LoggingArgs, Program, Syntax, files};
use bowline_machinery::serve::{Bound, Everyone, Pages};
use bowline_machinery::{Journal, Ports, client};
use bowline_roles::sidecars::livenessprobe::{self, Flags, NAME};
use clap::Args;

use super::process::Process;
use super::{Group, Run};

/// Where upstream serves unless it is told otherwise.
const HEALTH_PORT: &str = "9808";

#[derive(Debug, Args)]
pub struct Livenessprobe {
    #[command(flatten)]
    own: Flags,
    /// Port for /healthz on all IPv4 addresses; use --http-endpoint instead
    #[arg(long, value_name = "PORT", default_value = HEALTH_PORT)]
    health_port: String,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    logging: LoggingArgs,
}

impl Run for Livenessprobe {
    const PROGRAM: Program = Program {
        name: "livenessprobe",
        about: "Answers /healthz with what the driver answers to Probe",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::LIVENESSPROBE],
        defaults: &[],
        version: None,
    };
    const GROUP: Group = Group::Sidecars;

    fn logging(&self) -> &LoggingArgs {
        &self.logging
    }
    fn validate(&self) -> Result<(), String> {
        self.endpoint.address()?;
        // Upstream cannot tell the default from the same value when it is given.
        if self.endpoint.http_endpoint.is_some() && self.health_port != HEALTH_PORT {
            return Err(
                "only one of --health-port and --http-endpoint can be set; use --http-endpoint".into()
            );
        }
        Ok(())
    }
    async fn run(self) -> Result<ExitCode> {
        let process = Process::begin()?;
        let ports =
            Ports::new(client::nowhere(), process.host.clone(), Journal::default(), process.stop.clone());
        let questions = ports.questions(NAME);
        let unnamed = questions.clone().measured(&ports.metrics, "");
        let name = tokio::select! {
            biased;
            () = process.stop.cancelled() => return process.end(Ok(())).await,
            name = livenessprobe::name(&process.host, &self.own.csi_address, &unnamed) => name,
        };
        let name = name.context("ask the CSI driver for its name")?;
        tracing::info!(driver = name, "connected");
        let effects = questions.measured(&ports.metrics, &name);
        let (host, flags) = (process.host.clone(), self.own);
        let look = move || livenessprobe::health(host.clone(), flags.clone(), effects.clone());
        let mut pages = Pages::new(Everyone).page("/healthz", look);
        let path = &self.endpoint.metrics_path;
        let (flag, address) = match &self.endpoint.http_endpoint {
            Some(address) => {
                pages = pages.metrics(path, &ports.metrics);
                ("--http-endpoint", address.clone())
            }
            None => ("--health-port", format!("0.0.0.0:{}", self.health_port)),
        };
        if let Some(address) = &self.endpoint.metrics_address {
            let bound = Bound::bind(&process.host, "--metrics-address", address, None).await;
            let samples = Pages::new(Everyone).metrics(path, &ports.metrics);
            tokio::spawn(bound.context("serve metrics")?.serve(samples, process.stop.clone()));
        }
        let bound = Bound::bind(&process.host, flag, &address, None).await.context("serve health")?;
        bound.serve(pages, process.stop.clone()).await;
        process.end(Ok(())).await
    }
}
