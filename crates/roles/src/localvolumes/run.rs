//! Wiring: which change concerns which volume.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_api::{Meta, Node, Pod, pod};
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Ports, Queue, RunError, Watched};

use super::act::Manager;
use super::memory::Memory;
use super::observe::key;
use super::plan;
use super::reconstruct::reconstruct;
use super::view::Local;
use crate::indexes;
use crate::kubelet::{Alarms, PodRecords, Tenants};

/// Volumes worked on at the same time.
const WORKERS: usize = 64;

/// What these plugins share with the other parts of the kubelet.
#[derive(Clone)]
pub struct Settings {
    pub node_name: String,
    pub kubelet_dir: PathBuf,
    pub tenants: Tenants,
    pub records: PodRecords,
}

/// Finds the volumes of an earlier process, then runs until stopped. The view is for whoever starts containers.
pub async fn run(ports: Ports, settings: Settings, view: impl FnOnce(Local)) -> Result<(), RunError> {
    let pods = ports.informers.of::<Pod>();
    indexes::pods_by_uid(&pods);
    let Settings { node_name, kubelet_dir, tenants, records } = settings;
    let memory = Memory::default();
    reconstruct(&ports.host, &kubelet_dir, &records.uids(), &memory).await;
    let queue = Queue::<String>::new(Backoff::VOLUME);
    let local = Local { memory: memory.clone(), kubelet_dir: kubelet_dir.clone() };
    let manager = Arc::new(Manager {
        effects: ports.effects("kubelet"),
        recorder: ports.recorder("kubelet"),
        maps: Watched::new(ports.client.clone(), ports.host.random.clone(), ports.stop.clone()),
        secrets: Watched::new(ports.client.clone(), ports.host.random.clone(), ports.stop.clone()),
        alarms: Alarms::new(queue.clone()),
        ports: ports.clone(),
        node_name,
        kubelet_dir,
        pods: pods.clone(),
        memory,
        tenants,
        records,
    });
    pods.synced().await;
    ports.informers.of::<Node>().synced().await;
    view(local);

    follow(&manager, &queue);
    let work = move |volume: String| {
        let manager = manager.clone();
        async move { reconcile(manager.as_ref(), &volume).await }
    };
    queue.run(WORKERS, ports.stop.clone(), work).await;
    Ok(())
}

fn follow(manager: &Arc<Manager>, queue: &Queue<String>) {
    let wake = Wake { manager: manager.clone(), queue: queue.clone() };
    manager.memory.uids().iter().for_each(|uid| wake.known(uid));
    let to = wake.clone();
    manager.pods.on_change(move |change| change.sides().for_each(|pod| to.pod(pod)));
    manager.tenants.on_change(move |uid| match uid {
        "" => wake.manager.memory.uids().iter().for_each(|uid| wake.known(uid)),
        uid => wake.known(uid),
    });
    let to = queue.clone();
    manager.maps.on_change(move |volume| to.add(volume.to_owned()));
    let to = queue.clone();
    manager.secrets.on_change(move |volume| to.add(volume.to_owned()));
}

/// From what changed to the volumes to look at.
#[derive(Clone)]
struct Wake {
    manager: Arc<Manager>,
    queue: Queue<String>,
}

impl Wake {
    fn pod(&self, pod: &Pod) {
        if pod::node_name(pod) != self.manager.node_name {
            return;
        }
        plan::of_pod(pod).for_each(|(name, _)| self.queue.add(key(pod.uid(), name)));
        self.known(pod.uid());
    }

    fn known(&self, uid: &str) {
        self.manager.memory.of_pod(uid).iter().for_each(|name| self.queue.add(key(uid, name)));
    }
}
