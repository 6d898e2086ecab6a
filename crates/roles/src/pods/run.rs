//! Wiring: pods of this node, their volumes, and the containers that an earlier process left.

use std::sync::Arc;

use bowline_api::{Meta, Node, Pod, pod};
use bowline_host::containers::Found;
use bowline_machinery::effect::EffectError;
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Cache, Ports, Queue, RunError, Watched};

use super::act::Pods;
use super::inspect::Inspector;
use super::leftovers::Leftover;
use super::runtime::{self, Runtime};
use super::world::{Config, State};
use crate::indexes::{self, PODS_BY_UID};
use crate::kubelet::{Alarms, PodRecords, Tenants};
use crate::localvolumes::Local;
use crate::volumemanager::Mounts;

/// Pods worked on at the same time.
const WORKERS: usize = 64;
/// Removals that are tried again at the same time.
const CLEANERS: usize = 4;

/// What the pod workers share with the other parts of the kubelet.
pub struct Shared {
    pub mounts: Mounts,
    pub local: Local,
    pub tenants: Tenants,
    pub records: PodRecords,
}

/// Adopts the containers of an earlier process, shows them to `ready`, then runs until stopped.
pub async fn run(
    ports: Ports,
    config: Config,
    shared: Shared,
    ready: impl FnOnce(Inspector),
) -> Result<(), RunError> {
    let Shared { mounts, local, tenants, records } = shared;
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
        maps: Watched::new(ports.client.clone(), ports.host.random.clone(), ports.stop.clone()),
        secrets: Watched::new(ports.client.clone(), ports.host.random.clone(), ports.stop.clone()),
        queue: queue.clone(),
        leftovers: Queue::new(Backoff::VOLUME),
        told: Arc::default(),
        ports: ports.clone(),
        mounts,
        local,
        tenants,
        records,
    };
    cache.synced().await;
    ports.informers.of::<Node>().synced().await;
    adopt(&pods).await?;

    let (wake, node_name) = (queue.clone(), pods.config.node_name.clone());
    cache.on_change(move |change| {
        let here = change.sides().filter(|pod| pod::node_name(pod) == node_name);
        here.for_each(|pod| wake.add(pod.uid().to_owned()));
    });
    let wake = Wake { queue: queue.clone(), runtime: pods.runtime.clone(), pods: cache.clone() };
    let to = wake.clone();
    pods.mounts.on_change(move |uid| to.volumes(uid));
    pods.local.on_change(move |uid| wake.volumes(uid));
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
    let cleaner = pods.clone();
    let leftovers = pods.leftovers.clone();
    let clean = move |leftover: Leftover| {
        let pods = cleaner.clone();
        async move { pods.clean_leftover(&leftover).await }
    };
    let work = move |uid: String| {
        let pods = pods.clone();
        async move { reconcile(pods.as_ref(), &uid).await }
    };
    tokio::join!(
        queue.run(WORKERS, ports.stop.clone(), work),
        leftovers.run(CLEANERS, ports.stop.clone(), clean)
    );
    Ok(())
}

/// Pods whose volumes have changed.
#[derive(Clone)]
struct Wake {
    queue: Queue<String>,
    runtime: Runtime,
    pods: Cache<Pod>,
}

impl Wake {
    fn volumes(&self, uid: &str) {
        if uid.is_empty() {
            return;
        }
        // A volume that was on its way when its pod was taken away has made the pod's directory again.
        if self.pods.indexed(PODS_BY_UID, uid).is_empty() {
            self.runtime.update(uid, |_| ());
        }
        self.queue.add(uid.to_owned());
    }
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
    // Only what is recorded: directories of other pods are not ours to remove.
    for uid in pods.records.uids() {
        pods.runtime.update(&uid, |_| ());
    }
    pods.tenants.set_counted();
    Ok(())
}
