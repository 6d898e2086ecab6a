//! `bowline node-sidecars`: what upstream runs beside a driver on each node, in one process: the registrar and the
//! liveness probe, with one port for health and metrics.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_machinery::flags::{LoggingArgs, Program, Syntax, duration, files};
use bowline_machinery::serve::{Bound, Everyone, Pages};
use bowline_machinery::{Journal, Ports, client};
use bowline_roles::sidecars::livenessprobe;
use bowline_roles::sidecars::node_driver_registrar::{self, Flags, Named};
use clap::Args;

use super::csi_node_driver_registrar::health;
use super::process::Process;
use super::{Group, Run, VERSION};

const REGISTRAR: &str = "registrar";
const LIVENESSPROBE: &str = "livenessprobe";

#[derive(Debug, Args)]
pub struct NodeSidecars {
    /// What to run, separated by commas: registrar, livenessprobe
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "registrar,livenessprobe")]
    controllers: Vec<String>,
    #[command(flatten)]
    own: Flags,
    /// Longest time for one probe of livenessprobe, connection included
    #[arg(long, default_value = "3s", value_name = "DURATION", value_parser = duration)]
    probe_timeout: Duration,
    /// HOST:PORT for metrics, /healthz (the driver's) and /healthz/registration
    #[arg(long, value_name = "ADDRESS")]
    http_endpoint: Option<String>,
    /// Path of the metrics
    #[arg(long, value_name = "PATH", default_value = "/metrics")]
    metrics_path: String,
    #[command(flatten)]
    logging: LoggingArgs,
}

impl Run for NodeSidecars {
    const PROGRAM: Program = Program {
        name: "node-sidecars",
        about: "Presents a driver to the kubelet and answers for its health, in one process",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::NODE_SIDECARS],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;
    const ADDITIONS: &'static [&'static str] = &["controllers"];

    fn logging(&self) -> &LoggingArgs {
        &self.logging
    }
    fn validate(&self) -> Result<(), String> {
        let unknown =
            self.controllers.iter().find(|name| ![REGISTRAR, LIVENESSPROBE].contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(format!("--controllers: `{name}` is none of {REGISTRAR}, {LIVENESSPROBE}"));
        }
        if self.controllers.is_empty() {
            return Err(format!("--controllers is empty; give {REGISTRAR}, {LIVENESSPROBE} or both"));
        }
        if self.runs(REGISTRAR) && self.own.kubelet_registration_path.is_empty() {
            return Err("--kubelet-registration-path is required: the socket of the driver, as the kubelet reaches it".into());
        }
        if self.runs(LIVENESSPROBE) && self.http_endpoint.is_none() {
            return Err(format!("{LIVENESSPROBE} needs --http-endpoint: it answers /healthz there"));
        }
        if !self.metrics_path.starts_with('/') {
            return Err(format!("--metrics-path must start with `/`, got `{}`", self.metrics_path));
        }
        Ok(())
    }
    async fn run(self) -> Result<ExitCode> {
        let (process, named) = (Process::begin()?, Named::default());
        let ports =
            Ports::new(client::nowhere(), process.host.clone(), Journal::default(), process.stop.clone());
        if let Some(address) = &self.http_endpoint {
            let bound = Bound::bind(&process.host, "--http-endpoint", address, None).await;
            let pages = self.pages(&ports, &named);
            tokio::spawn(bound.context("serve health")?.serve(pages, process.stop.clone()));
        }
        let ended = if self.runs(REGISTRAR) {
            node_driver_registrar::run(ports, self.own, named).await
        } else {
            process.stop.cancelled().await;
            Ok(())
        };
        process.end(ended).await
    }
}

impl NodeSidecars {
    fn runs(&self, name: &str) -> bool {
        self.controllers.iter().any(|enabled| enabled == name)
    }

    /// The kubelet restarts the driver's container by `/healthz`: a registration that failed is not the driver's fault, and
    /// has a page of its own. Without the probe, `/healthz` is the registrar's, as upstream's is.
    fn pages(&self, ports: &Ports, named: &Named) -> Pages {
        let mut pages = Pages::new(Everyone).metrics(&self.metrics_path, &ports.metrics);
        if self.runs(REGISTRAR) {
            let path = if self.runs(LIVENESSPROBE) { "/healthz/registration" } else { "/healthz" };
            let (host, flags, name) = (ports.host.clone(), self.own.clone(), named.clone());
            pages = pages.page(path, move || health(host.clone(), flags.clone(), name.clone()));
        }
        if self.runs(LIVENESSPROBE) {
            let probe_timeout = self.probe_timeout;
            let flags = livenessprobe::Flags { csi_address: self.own.csi_address.clone(), probe_timeout };
            let (with, named) = (ports.clone(), named.clone());
            pages = pages.page("/healthz", move || {
                let driver = named.get().map(String::as_str).unwrap_or_default();
                let effects = with.questions(livenessprobe::NAME).measured(&with.metrics, driver);
                livenessprobe::health(with.host.clone(), flags.clone(), effects)
            });
        }
        pages
    }
}
