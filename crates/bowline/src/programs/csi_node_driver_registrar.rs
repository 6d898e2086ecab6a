//! `csi-node-driver-registrar`: presents a driver to the kubelet.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_host::Host;
use bowline_host::disk::Kind;
use bowline_machinery::client;
use bowline_machinery::csi::Driver;
use bowline_machinery::flags::{LoggingArgs, Program, Syntax, files};
use bowline_machinery::serve::{Answer, Bound, Everyone, Pages};
use bowline_machinery::{Journal, Ports};
use bowline_proto::pluginregistration::InfoRequest;
use bowline_proto::pluginregistration::registration_client::RegistrationClient;
use bowline_roles::sidecars::node_driver_registrar::{self, Flags, Named, socket_name};
use clap::Args;
use http::StatusCode;

use super::process::Process;
use super::{Group, Run, VERSION};

/// A probe of the kubelet's, from the time when it ran this program in the pod.
const PROBE: &str = "kubelet-registration-probe";

#[derive(Debug, Args)]
pub struct CsiNodeDriverRegistrar {
    #[command(flatten)]
    own: Flags,
    /// HOST:PORT for /healthz
    #[arg(long, value_name = "ADDRESS")]
    http_endpoint: Option<String>,
    /// Port for /healthz on all addresses; use --http-endpoint instead
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    health_port: u16,
    /// Empty, or kubelet-registration-probe, which ends at once
    #[arg(long, default_value = "")]
    mode: String,
    #[command(flatten)]
    logging: LoggingArgs,
}

impl Run for CsiNodeDriverRegistrar {
    const PROGRAM: Program = Program {
        name: "csi-node-driver-registrar",
        about: "Presents a driver to the kubelet",
        syntax: Syntax::GoFlag,
        upstream: &[files::LOGGING, files::CSI_NODE_DRIVER_REGISTRAR],
        defaults: &[],
        version: Some(VERSION),
    };
    const GROUP: Group = Group::Sidecars;

    fn logging(&self) -> &LoggingArgs {
        &self.logging
    }
    fn validate(&self) -> Result<(), String> {
        if self.own.kubelet_registration_path.is_empty() {
            return Err("--kubelet-registration-path is required: the socket of the driver, as the kubelet reaches it".into());
        }
        if self.http_endpoint.is_some() && self.health_port > 0 {
            return Err(
                "only one of --http-endpoint and --health-port can be set; use --http-endpoint".into()
            );
        }
        match self.mode.as_str() {
            "" | "registration" | PROBE => Ok(()),
            other => Err(format!("--mode=`{other}` is not `{PROBE}`")),
        }
    }
    async fn run(self) -> Result<ExitCode> {
        if self.mode == PROBE {
            return Ok(ExitCode::SUCCESS);
        }
        let (process, named) = (Process::begin()?, Named::default());
        let port = (self.health_port > 0).then(|| ("--health-port", format!(":{}", self.health_port)));
        let endpoint = self.http_endpoint.clone().map(|address| ("--http-endpoint", address));
        if let Some((flag, address)) = endpoint.or(port) {
            let bound = Bound::bind(&process.host, flag, &address, None).await.context("serve health")?;
            let (host, flags, name) = (process.host.clone(), self.own.clone(), named.clone());
            let look = move || health(host.clone(), flags.clone(), name.clone());
            let pages = Pages::new(Everyone).page("/healthz", look);
            tokio::spawn(bound.serve(pages, process.stop.clone()));
        }
        let ports =
            Ports::new(client::nowhere(), process.host.clone(), Journal::default(), process.stop.clone());
        let ended = node_driver_registrar::run(ports, self.own, named).await;
        process.end(ended).await
    }
}

/// Whether the socket is there and answers as this driver: it may have been removed, or taken by another process.
pub(super) async fn health(host: Host, flags: Flags, named: Named) -> Answer {
    let wrong = |text: String| Answer::new(StatusCode::INTERNAL_SERVER_ERROR, text);
    let absent = || Answer::new(StatusCode::NOT_FOUND, "registration socket does not exist");
    let Some(driver) = named.get() else { return absent() };
    let socket = flags.plugin_registration_path.join(socket_name(driver));
    match host.disk.kind(&socket).await {
        Ok(Some(Kind::Socket)) => {}
        Ok(None) => return absent(),
        Ok(Some(_)) => return wrong(format!("`{}` is no socket", socket.display())),
        Err(error) => return wrong(format!("look at `{}`: {error}", socket.display())),
    }
    match asked(&host, &socket, flags.timeout).await {
        Ok(name) if name == *driver => Answer::ok("ok"),
        Ok(name) => wrong(format!("`{}` is served by driver {name}", socket.display())),
        Err(why) => wrong(why),
    }
}

async fn asked(host: &Host, socket: &Path, timeout: Duration) -> Result<String, String> {
    let mut client = RegistrationClient::new(Driver::at(host, socket).channel());
    match tokio::time::timeout(timeout, client.get_info(InfoRequest {})).await {
        Ok(Ok(info)) => Ok(info.into_inner().name),
        Ok(Err(status)) => Err(format!("ask `{}`: {}", socket.display(), status.message())),
        Err(_) => Err(format!("`{}` did not answer within {timeout:?}", socket.display())),
    }
}
