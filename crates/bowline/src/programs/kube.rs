//! What kube-controller-manager and kube-scheduler share: HTTPS with health and metrics, and the lease.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::real;
use bowline_machinery::client::{self, Environment};
use bowline_machinery::flags::KubeArgs;
use bowline_machinery::serve::{Access, AllowedPaths, Bound, Check, Pages, Reviewer, Tls, path_attributes};
use bowline_machinery::{Leadership, Ports, RunError};
use tokio::time::{Instant, sleep};

use super::process::Process;

/// How long upstream's programs wait for the API server before they exit.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// Runs a program to its end.
pub(super) async fn run<Fut>(
    program: &'static str,
    shared: &KubeArgs,
    roles: impl FnOnce(Ports) -> Fut,
) -> Result<ExitCode>
where
    Fut: Future<Output = Result<(), RunError>>,
{
    let mut process = Process::begin()?;
    let ports = process.connect(program, shared.kubeconfig.as_deref(), &Environment::Ignored).await?;
    serve(&process, program, &ports, shared).await?;
    tokio::select! {
        biased;
        () = process.stop.cancelled() => return process.end(Ok(())).await,
        reached = reach(&ports) => reached?,
    }
    let ports = match shared.election.leader_election().map_err(anyhow::Error::msg)? {
        None => ports,
        Some(election) => {
            let name = shared.election.leader_elect_resource_name.clone();
            let namespace = shared.election.leader_elect_resource_namespace.clone();
            let machine = real::hostname().context("read the name of this machine")?;
            let identity = format!("{machine}_{}", process.host.random.uuid());
            process.lead(ports, election, name, namespace, identity)?
        }
    };
    let ended = roles(ports).await;
    process.end(ended).await
}

/// Waits a little for the API server, as upstream does; then it is an error.
async fn reach(ports: &Ports) -> Result<()> {
    let begun = Instant::now();
    loop {
        match client::check(&ports.client).await {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() >= PATIENCE => return Err(error.into()),
            Err(error) => tracing::warn!(%error, "waiting for the API server"),
        }
        sleep(PAUSE).await;
    }
}

/// Asks the API server about clients, as upstream delegates it: without a kubeconfig for tokens all clients are anonymous, and
/// without one for access only the open paths are served.
async fn reviewer(process: &Process, program: &str, shared: &KubeArgs) -> Result<Option<Box<dyn Access>>> {
    let client = async |flag, path: &Option<PathBuf>| match path {
        Some(path) if !path.as_os_str().is_empty() => {
            let ports = process.connect(program, Some(path), &Environment::Ignored).await;
            ports.context(flag).map(|ports| Some(ports.client))
        }
        _ => Ok(None),
    };
    let serving = &shared.serving;
    let rights = client("use --authorization-kubeconfig", &serving.authorization_kubeconfig).await?;
    let tokens = client("use --authentication-kubeconfig", &serving.authentication_kubeconfig).await?;
    if rights.is_none() {
        return Ok(None);
    }
    let reviewer = Reviewer::new(&process.host, serving.kept(), path_attributes);
    Ok(Some(Box::new(reviewer.anonymous(true).tokens(tokens).rights(rights))))
}

async fn serve(process: &Process, program: &str, ports: &Ports, shared: &KubeArgs) -> Result<()> {
    let Some(address) = shared.serving.address() else { return Ok(()) };
    let tls = match (&shared.serving.tls_cert_file, &shared.serving.tls_private_key_file) {
        (Some(certificate), Some(key)) => Tls::read(&process.host, certificate, key).await?,
        (None, None) => Tls::self_signed(&process.host, program, address.ip())?,
        _ => bail!("--tls-cert-file and --tls-private-key-file belong together"),
    };
    let bound = Bound::bind(&process.host, "--secure-port", &address.to_string(), Some(tls)).await;
    let bound = bound.context("serve health and metrics")?;
    let leadership = process.leadership.clone();
    let renewal = Check::new("leaderElection", move || {
        let healthy = leadership.get().is_none_or(Leadership::healthy);
        std::future::ready(if healthy { Ok(()) } else { Err("the lease was not renewed in time".to_owned()) })
    });
    let paths = shared.serving.authorization_always_allow_paths.clone();
    let access = AllowedPaths { paths, reviewer: reviewer(process, program, shared).await? };
    let pages = Pages::new(access)
        .metrics("/metrics", &ports.metrics)
        .health("/healthz", vec![Check::ping(), renewal.clone()])
        .health("/livez", vec![Check::ping(), renewal])
        .health("/readyz", vec![Check::ping()]);
    tokio::spawn(bound.serve(pages, process.stop.clone()));
    Ok(())
}
