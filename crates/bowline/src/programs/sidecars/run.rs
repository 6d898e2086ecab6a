//! The controllers around one driver, until the process is to end.

use std::time::Duration;

use anyhow::{Result, bail};
use bowline_machinery::backoff::Backoff;
use bowline_machinery::client::one_line;
use bowline_machinery::supervise::supervised;
use bowline_machinery::{Identity, Ports, RunError, Sidecar};
use futures::future::join_all;

use super::super::sidecar;
use super::args::{Enabled, SidecarsArgs};
use super::election::Election;

/// In the journal, before a controller asks anything.
pub const COMPONENT: &str = "bowline-sidecars";
/// Longest pause between two looks for an API that is not installed.
const LOOK: Duration = Duration::from_secs(300);

/// Runs the controllers. A driver that was restarted, or replaced by another version, is asked again what it can do, and the
/// controllers begin again with its answers; caches and leases are kept. One of another name is another driver, with other
/// volumes and leases: the process ends, as upstream's do whenever the connection is lost.
pub async fn controllers(
    ports: &Ports,
    args: &SidecarsArgs,
    mut sidecar: Sidecar,
    election: Option<&Election>,
) -> Result<()> {
    loop {
        if !until_replaced(ports, args, &sidecar, election).await? {
            return Ok(());
        }
        let again = tokio::select! {
            biased;
            () = ports.stop.cancelled() => return Ok(()),
            again = sidecar::driver(ports, COMPONENT, &args.shared) => again?.in_namespace(&sidecar.namespace),
        };
        same_driver(&sidecar.identity, &again.identity)?;
        sidecar = again;
    }
}

/// Runs the controllers until the process is to end (false) or the driver was replaced (true).
async fn until_replaced(
    ports: &Ports,
    args: &SidecarsArgs,
    sidecar: &Sidecar,
    election: Option<&Election>,
) -> Result<bool> {
    let stop = ports.stop.child_token();
    let with = ports.until(stop.clone());
    let running = join_all(args.enabled.iter().map(|one| keep(one, &with, sidecar, election)));
    tokio::pin!(running);
    let replaced = tokio::select! {
        biased;
        ended = &mut running => {
            let first = ended.into_iter().find_map(Result::err);
            return first.map_or(Ok(false), |error| Err(error.into()));
        }
        () = lost(election) => false,
        () = sidecar.driver.reconnected() => true,
    };
    // What is in flight is finished first.
    stop.cancel();
    running.await;
    if !replaced {
        let lease = election.map(|all| all.main().name().to_owned()).unwrap_or_default();
        return Err(RunError::LeaseLost(lease).into());
    }
    Ok(true)
}

/// Whether the driver behind the socket is still the same one.
pub(super) fn same_driver(before: &Identity, now: &Identity) -> Result<()> {
    if before.name != now.name {
        bail!(
            "CSI driver {} was replaced by {} behind its socket; leases and volumes are another driver's now, so this process ends to begin again",
            before.name,
            now.name
        );
    }
    let changed = before != now;
    tracing::warn!(driver = now.name, changed, "the driver was restarted; the controllers begin again");
    Ok(())
}

async fn lost(election: Option<&Election>) {
    match election {
        Some(election) => election.main().lost().await,
        None => std::future::pending().await,
    }
}

/// Keeps one controller running. A lease that it loses is waited for again; the others go on meanwhile.
async fn keep(
    one: &Enabled,
    ports: &Ports,
    sidecar: &Sidecar,
    election: Option<&Election>,
) -> Result<(), RunError> {
    let controller = one.controller;
    if let Some(path) = controller.needs
        && !installed(ports, path, controller.name).await
    {
        return Ok(());
    }
    loop {
        let ports = match election {
            Some(election) => ports.clone().led_by(election.seat(&(controller.lock)(&sidecar.identity.name))),
            None => ports.clone(),
        };
        let sidecar = Sidecar { timeout: one.timeout, ..sidecar.clone() };
        let (with, words, gates) = (ports.clone(), one.words.clone(), one.gates.clone());
        let start = move || {
            let running = (controller.start)(with.clone(), sidecar.clone(), &words, &gates);
            async move { running?.await }
        };
        match supervised(controller.component, &ports, start).await {
            Err(RunError::LeaseLost(lease)) if !ports.stop.is_cancelled() && leads(election) => {
                tracing::warn!(
                    controller = controller.name,
                    lease,
                    "stopped: another program holds its lease; waiting for it"
                );
            }
            ended => return ended,
        }
    }
}

fn leads(election: Option<&Election>) -> bool {
    election.is_some_and(|election| !election.main().ended())
}

/// Waits until the API server serves `path`; false when the process ends before. Says once that it waits.
async fn installed(ports: &Ports, path: &str, controller: &str) -> bool {
    let (mut pauses, mut told) = (Backoff::new(ports.host.random.clone()), false);
    loop {
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { return false };
        let pause = match ports.client.request_text(request).await {
            Ok(_) => return true,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                if !told {
                    tracing::info!(
                        controller,
                        path,
                        "not installed in this cluster: the controller waits for it"
                    );
                    told = true;
                }
                LOOK
            }
            Err(error) => {
                tracing::debug!(
                    controller,
                    path,
                    error = one_line(&error),
                    "cannot ask whether it is installed"
                );
                pauses.failed()
            }
        };
        tokio::select! {
            biased;
            () = ports.stop.cancelled() => return false,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
