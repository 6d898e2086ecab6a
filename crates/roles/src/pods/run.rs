//! Wiring: pods of this node, their volumes, and the containers that an earlier process left.

use std::path::Path;
use std::sync::Arc;

use bowline_api::{Meta, Node, Pod, pod};
use bowline_host::containers::Found;
use bowline_machinery::effect::EffectError;
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Ports, Queue, RunError, Watched};

use super::act::Pods;
use super::inspect::Inspector;
use super::runtime::{self, Runtime};
use super::spec;
use super::world::{Config, State};
use crate::indexes;
use crate::kubelet::{Alarms, Tenants};
use crate::localvolumes::Local;
use crate::volumemanager::Mounts;

/// Pods worked on at the same time.
const WORKERS: usize = 64;

/// Adopts the containers of an earlier process, shows them to `ready`, then runs until stopped.
pub async fn run(
    ports: Ports,
    config: Config,
    mounts: Mounts,
    local: Local,
    tenants: Tenants,
    ready: impl FnOnce(Inspector),
) -> Result<(), RunError> {
    let queue = Queue::<String>::new(Backoff::VOLUME);
    let cache = ports.informers.of::<Pod>();
    indexes::pods_by_uid(&cache);
    let pods = Pods {
        effects: ports.effects("kubelet"),
        recorder: ports.recorder("kubelet"),
        config: Arc::new(config),
        pods: cache.clone(),
        runtime: Runtime::default(),
        alarms: Alarms::new(queue.clone()),
        maps: Watched::new(ports.client.clone(), ports.stop.clone()),
        secrets: Watched::new(ports.client.clone(), ports.stop.clone()),
        queue: queue.clone(),
        told: Arc::default(),
        ports: ports.clone(),
        mounts,
        local,
        tenants,
    };
    cache.synced().await;
    ports.informers.of::<Node>().synced().await;
    adopt(&pods).await?;

    let (wake, node_name) = (queue.clone(), pods.config.node_name.clone());
    cache.on_change(move |change| {
        let here = change.sides().filter(|pod| pod::node_name(pod) == node_name);
        here.for_each(|pod| wake.add(pod.uid().to_owned()));
    });
    let wake = queue.clone();
    pods.mounts.on_change(move |uid| {
        if !uid.is_empty() {
            wake.add(uid.to_owned());
        }
    });
    let wake = queue.clone();
    pods.local.on_change(move |uid| wake.add(uid.to_owned()));
    let wake = queue.clone();
    pods.maps.on_change(move |uid| wake.add(uid.to_owned()));
    let wake = queue.clone();
    pods.secrets.on_change(move |uid| wake.add(uid.to_owned()));
    let (wake, runtime) = (queue.clone(), pods.runtime.clone());
    pods.tenants.on_change(move |uid| {
        if uid.is_empty() {
            runtime.uids().into_iter().for_each(|uid| wake.add(uid));
        }
    });
    pods.runtime.uids().into_iter().for_each(|uid| queue.add(uid));

    let pods = Arc::new(pods);
    ready(Inspector::new(pods.clone()));
    let work = move |uid: String| {
        let pods = pods.clone();
        async move { reconcile(pods.as_ref(), &uid).await }
    };
    queue.run(WORKERS, ports.stop.clone(), work).await;
    Ok(())
}

/// Whatever runs goes on running, and its volumes stay (NODE-3). Only then may anything be unmounted.
async fn adopt(pods: &Pods) -> Result<(), RunError> {
    let host = &pods.ports.host;
    let found = host.containers.list().await.map_err(|error| RunError::Effect {
        what: "list the containers of an earlier process",
        source: EffectError::unknown(error.to_string()),
    })?;
    for Found { id, state, evicted } in found {
        let Some((uid, container, number)) = runtime::parts(&id) else { continue };
        let runs = matches!(state, State::Running { .. });
        let last_lines = match &state {
            State::Exited { exit, .. } => pods.last_lines(uid, container, number, exit).await,
            State::Running { .. } => None,
        };
        pods.runtime.started(uid, container, number, state);
        if let Some(text) = last_lines {
            pods.runtime.wrote_last(uid, container, number, text);
        }
        if evicted {
            pods.runtime.evicted(uid, container, number);
        }
        if runs {
            pods.tenants.enter(uid);
            pods.wait(uid, container, number);
        }
    }
    let list = async |dir: &Path| {
        let path = dir.display().to_string();
        host.disk.list(dir).await.map_err(|source| RunError::Io { what: "list", path, source })
    };
    for uid in list(&pods.config.kubelet_dir.join("pods")).await? {
        pods.runtime.update(&uid, |_| ());
    }
    // A pod without volumes has no directory but that of its logs.
    for uid in list(&pods.config.log_dir).await?.iter().filter_map(|name| spec::pod_of_logs(name)) {
        pods.runtime.update(uid, |_| ());
    }
    pods.tenants.set_counted();
    Ok(())
}
