//! What the sidecars share: the driver, the lease named after it, and the endpoint.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::real;
use bowline_machinery::client::Environment;
use bowline_machinery::flags::{EndpointArgs, SidecarArgs, lease_namespace};
use bowline_machinery::lease::settings::sanitize;
use bowline_machinery::serve::{Bound, Check, Everyone, Pages};
use bowline_machinery::supervise::beside;
use bowline_machinery::{Leadership, Ports, RunError, Sidecar};
use clap::Args;
use tokio::time::{Instant, sleep};

use super::process::{Process, tell_unreached};

/// How long upstream's sidecars wait for the driver's socket before they exit.
const DIAL: Duration = Duration::from_secs(30);
/// Pause between two tries to reach it.
const DIAL_PAUSE: Duration = Duration::from_millis(100);
/// The namespace that tenants share.
const OPEN_NAMESPACE: &str = "default";
/// Where a pod finds its namespace.
const ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// One sidecar: its names, and which lease it takes.
pub(super) struct Kind {
    pub(super) program: &'static str,
    /// In the journal and in events.
    pub(super) component: &'static str,
    pub(super) environment: Environment,
    /// The lock of a driver, before characters that a lease may not have are replaced.
    pub(super) lock: fn(&str) -> String,
}

/// Runs a sidecar to its end.
pub(super) async fn run<Fut>(
    kind: Kind,
    shared: &SidecarArgs,
    role: impl FnOnce(Ports, Sidecar) -> Fut,
) -> Result<ExitCode>
where
    Fut: Future<Output = Result<(), RunError>>,
{
    let mut process = Process::begin()?;
    let ports = process.connect(kind.program, shared.kubeconfig.as_deref(), &kind.environment).await?;
    serve(&process, &ports, &shared.endpoint, |pages| pages).await?;
    tokio::spawn(tell_unreached(ports.client.clone()));
    let sidecar = tokio::select! {
        biased;
        () = process.stop.cancelled() => return process.end(Ok(())).await,
        sidecar = driver(&ports, kind.component, shared) => sidecar?,
    };
    let namespace = namespace(&ports, shared.election.leader_election_namespace.as_deref()).await;
    let sidecar = sidecar.in_namespace(own_namespace(&namespace));
    let ports = match shared.election.leader_election().map_err(anyhow::Error::msg)? {
        None => ports,
        Some(election) => {
            let name = sanitize(&(kind.lock)(&sidecar.identity.name));
            let machine = real::hostname().context("read the name of this machine")?;
            // Upstream's is the name alone, with which two processes of one machine would both lead.
            let identity = sanitize(&format!("{machine}-{}", process.host.random.uuid()));
            process.lead(ports, election, name, namespace, identity)?
        }
    };
    let ended = beside(&sidecar, &ports, |ports| role(ports, sidecar.clone())).await;
    process.end(ended).await
}

/// Where a sidecar may store what it acts on later: tenants with the role `edit` may write leases in the open namespace, so
/// nothing is stored there.
pub(super) fn own_namespace(namespace: &str) -> &str {
    if namespace == OPEN_NAMESPACE { "" } else { namespace }
}

/// Names of the flags that all sidecars share.
pub(super) fn shared_flags() -> Vec<String> {
    let command = SidecarArgs::augment_args(clap::Command::new("shared"));
    command.get_arguments().filter_map(|argument| argument.get_long().map(String::from)).collect()
}

/// The driver, once it listens and says that it is ready.
pub(super) async fn driver(ports: &Ports, component: &'static str, shared: &SidecarArgs) -> Result<Sidecar> {
    dial(ports, &shared.csi_address).await?;
    let sidecar = Sidecar::connect(ports, component, &shared.csi_address, shared.timeout, shared.backoff());
    Ok(sidecar.await?)
}

async fn dial(ports: &Ports, address: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        match ports.host.net.connect(address).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() >= DIAL => {
                bail!("no CSI driver listens on `{}` after {DIAL:?}: {error}", address.display());
            }
            Err(error) => tracing::debug!(socket = %address.display(), %error, "waiting for the driver"),
        }
        sleep(DIAL_PAUSE).await;
    }
}

pub(super) async fn namespace(ports: &Ports, flag: Option<&str>) -> String {
    let environment = std::env::var("POD_NAMESPACE").ok();
    let account = ports.host.disk.read(Path::new(ACCOUNT_NAMESPACE)).await.ok();
    let account = account.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    lease_namespace(flag, environment.as_deref(), account.as_deref()).to_owned()
}

/// Starts before, and without regard to, the election. `more` adds pages of the program's own where health is served.
pub(super) async fn serve(
    process: &Process,
    ports: &Ports,
    endpoint: &EndpointArgs,
    more: impl FnOnce(Pages) -> Pages,
) -> Result<()> {
    let Some(address) = endpoint.address().map_err(anyhow::Error::msg)? else { return Ok(()) };
    let flag = if endpoint.serves_health() { "--http-endpoint" } else { "--metrics-address" };
    let bound = Bound::bind(&process.host, flag, address, None).await.context("serve metrics")?;
    let mut pages = Pages::new(Everyone).metrics(&endpoint.metrics_path, &ports.metrics);
    if endpoint.serves_health() {
        pages = more(pages.check("/healthz/leader-election", renewal(process.leadership.clone())));
    }
    tokio::spawn(bound.serve(pages, process.stop.clone()));
    Ok(())
}

fn renewal(leadership: Arc<OnceLock<Leadership>>) -> Check {
    Check::new("leader-election", move || {
        let healthy = leadership.get().is_none_or(Leadership::healthy);
        std::future::ready(if healthy { Ok(()) } else { Err("the lease was not renewed in time".to_owned()) })
    })
}
