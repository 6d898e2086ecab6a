//! What kube-controller-manager and kube-scheduler share: HTTPS with health and metrics, and the lease.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_host::real;
use bowline_machinery::client::{self, Environment};
use bowline_machinery::flags::KubeArgs;
use bowline_machinery::serve::{
    Access, AllowedPaths, Bound, Check, Checks, Pages, Reviewer, Tls, path_attributes,
};
use bowline_machinery::{Leadership, Ports, RunError};
use tokio::time::{Instant, sleep};

use super::process::{Process, certificate_user, tell_unreached};

/// How long upstream's kube-controller-manager waits for the API server, when it does not take part in an election.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// What a program without an election does while there is no API server. With one, every program waits for its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// Ends after [`PATIENCE`].
    Ends,
    Waits,
}

/// What tells one of these programs from the other.
pub(super) struct Kind {
    pub(super) program: &'static str,
    pub(super) absent: Absent,
    /// The check of `/readyz` that fails until the caches are complete.
    pub(super) synced: &'static str,
    /// What `/healthz` has beside the election.
    pub(super) health: Checks,
}

/// Runs a program to its end.
pub(super) async fn run<Fut>(
    kind: Kind,
    shared: &KubeArgs,
    roles: impl FnOnce(Ports) -> Fut,
) -> Result<ExitCode>
where
    Fut: Future<Output = Result<(), RunError>>,
{
    let mut process = Process::begin()?;
    let ports = process.connect(kind.program, shared.kubeconfig.as_deref(), &Environment::Ignored).await?;
    serve(&process, &kind, &ports, shared).await?;
    if kind.absent == Absent::Ends && !shared.election.leader_elect {
        tokio::select! {
            biased;
            () = process.stop.cancelled() => return process.end(Ok(())).await,
            reached = reach(&ports) => reached?,
        }
    } else {
        tokio::spawn(tell_unreached(ports.client.clone()));
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

/// Asks the API server about clients, as upstream delegates it: with the kubeconfig of the flag or else as the pod's service
/// account. Without either for tokens all clients are anonymous, and without either for access only the open paths are served.
async fn reviewer(process: &Process, program: &str, shared: &KubeArgs) -> Result<Option<Box<dyn Access>>> {
    let pod = in_pod(|variable| std::env::var_os(variable));
    let client = async |flag, path: &Option<PathBuf>| {
        let path = path.as_deref().filter(|path| !path.as_os_str().is_empty());
        if path.is_none() && !pod {
            return Ok(None);
        }
        match (process.connect(program, path, &Environment::Ignored).await, path) {
            (Ok(ports), _) => Ok(Some(ports.client)),
            (Err(error), Some(_)) => Err(error.context(flag)),
            (Err(error), None) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot review clients as the pod's service account"
                );
                Ok(None)
            }
        }
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

/// As client-go tells: both are set in every container of a pod.
fn in_pod(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"]
        .iter()
        .all(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

async fn serve(process: &Process, kind: &Kind, ports: &Ports, shared: &KubeArgs) -> Result<()> {
    let Some(address) = shared.serving.address() else { return Ok(()) };
    let tls = match (&shared.serving.tls_cert_file, &shared.serving.tls_private_key_file) {
        (Some(certificate), Some(key)) => Tls::read(&process.host, certificate, key).await?,
        (None, None) => Tls::self_signed(&process.host, kind.program, address.ip()).await?,
        _ => bail!("--tls-cert-file and --tls-private-key-file belong together"),
    };
    let tls = match &shared.serving.client_ca_file {
        Some(path) if !path.as_os_str().is_empty() => {
            tls.trusting(path, certificate_user).await.context("use --client-ca-file")?
        }
        _ => tls,
    };
    let bound = Bound::bind(&process.host, "--secure-port", &address.to_string(), Some(tls)).await;
    let bound = bound.context("serve health and metrics")?;
    let paths = shared.serving.authorization_always_allow_paths.clone();
    let access = AllowedPaths { paths, reviewer: reviewer(process, kind.program, shared).await? };
    let renewal = shared.election.leader_elect.then(|| renewal(process));
    if let Some(renewal) = &renewal {
        kind.health.add(renewal.clone());
    }
    let ready = renewal.into_iter().chain([running(process), synced(kind.synced, ports)]);
    let pages = Pages::new(access)
        .metrics("/metrics", &ports.metrics)
        .health("/healthz", kind.health.clone())
        .health("/livez", Checks::default())
        .health("/readyz", ready.collect::<Vec<_>>());
    tokio::spawn(bound.serve(pages, process.stop.clone()));
    Ok(())
}

fn renewal(process: &Process) -> Check {
    let leadership = process.leadership.clone();
    Check::new("leaderElection", move || {
        let healthy = leadership.get().is_none_or(Leadership::healthy);
        std::future::ready(if healthy { Ok(()) } else { Err("the lease was not renewed in time".to_owned()) })
    })
}

fn running(process: &Process) -> Check {
    let stop = process.stop.clone();
    Check::new("shutdown", move || {
        let ends = stop.is_cancelled();
        std::future::ready(if ends { Err("the program is ending".to_owned()) } else { Ok(()) })
    })
}

/// A standby is ready with its caches, too.
fn synced(name: &str, ports: &Ports) -> Check {
    let starts = ports.starts.clone();
    Check::new(name, move || std::future::ready(starts.complete()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_both_variables() {
        let given = |host: &'static str, port: &'static str| {
            in_pod(|name| match name {
                "KUBERNETES_SERVICE_HOST" => Some(host.into()),
                "KUBERNETES_SERVICE_PORT" => Some(port.into()),
                _ => None,
            })
        };
        assert!(given("10.0.0.1", "443"));
        assert!(!given("", "443") && !given("10.0.0.1", "") && !in_pod(|_| None));
    }
}
