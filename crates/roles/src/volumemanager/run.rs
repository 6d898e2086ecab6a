//! Wiring: which change concerns which volume.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_api::{
    CSIDriver, Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment, node, pod, volume,
};
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Change, Ports, Queue, RunError};

use super::act::Manager;
use super::desired;
use super::memory::Memory;
use super::mounts::Mounts;
use super::paths::Paths;
use super::reconstruct::reconstruct;
use super::stuck;
use crate::indexes::{self, PODS_BY_CLAIM};
use crate::kubelet::{Alarms, PodRecords, Tenants};
use crate::nodestatus::InUse;
use crate::pluginmanager::Drivers;

/// Volumes worked on at the same time.
const WORKERS: usize = 64;

/// What the volume manager shares with the other parts of the kubelet.
#[derive(Clone)]
pub struct Settings {
    pub node_name: String,
    pub kubelet_dir: PathBuf,
    pub drivers: Drivers,
    pub in_use: InUse,
    pub tenants: Tenants,
    pub records: PodRecords,
}

/// Finds the mounts of an earlier process, then runs until stopped. The view is for whoever starts containers.
pub async fn run(ports: Ports, settings: Settings, view: impl FnOnce(Mounts)) -> Result<(), RunError> {
    let informers = &ports.informers;
    indexes::volumes(&informers.of::<PersistentVolume>());
    indexes::pods(&informers.of::<Pod>());
    indexes::pods_by_uid(&informers.of::<Pod>());

    let (memory, paths) = (Memory::default(), Paths::new(&settings.kubelet_dir));
    // A record that cannot be read is made up for by the volume's object.
    informers.of::<PersistentVolume>().synced().await;
    let known = settings.records.uids();
    reconstruct(&ports.host, &paths, &known, &informers.of::<PersistentVolume>(), &memory).await?;
    stuck::watch(&ports, memory.clone());
    let queue = Queue::<String>::new(Backoff::VOLUME);
    let mounts = Mounts::new(&ports, memory.clone(), paths.clone());
    let Settings { node_name, drivers, in_use, tenants, records, .. } = settings;
    let manager = Arc::new(Manager {
        effects: ports.effects("kubelet"),
        recorder: ports.recorder("kubelet"),
        pods: informers.of(),
        volumes: informers.of(),
        alarms: Alarms::new(queue.clone()),
        mounts: mounts.clone(),
        ports: ports.clone(),
        node_name,
        paths,
        memory,
        drivers,
        in_use,
        tenants,
        records,
    });
    informers.of::<Pod>().synced().await;
    informers.of::<PersistentVolumeClaim>().synced().await;
    informers.of::<VolumeAttachment>().synced().await;
    informers.of::<CSIDriver>().synced().await;
    informers.of::<Node>().synced().await;
    view(mounts);

    let wake = Wake { manager: manager.clone(), queue: queue.clone() };
    wake.list_in_use();
    wake.follow();
    let work = move |volume: String| {
        let manager = manager.clone();
        async move { reconcile(manager.as_ref(), &volume).await }
    };
    queue.run(WORKERS, ports.stop.clone(), work).await;
    Ok(())
}

/// From what changed to the volumes to look at.
#[derive(Clone)]
struct Wake {
    manager: Arc<Manager>,
    queue: Queue<String>,
}

impl Wake {
    /// Before the list may shrink, it holds all that is here and all that is wanted (reference kube-core.md 9.3.2).
    fn list_in_use(&self) {
        let manager = &self.manager;
        for name in manager.memory.names() {
            let driver = manager.memory.get(&name).map(|v| v.driver).unwrap_or_default();
            if manager.attachable(&driver) {
                manager.in_use.insert(&name);
            }
            self.queue.add(name);
        }
        for pod in manager.pods.list().iter().filter(|pod| self.here(pod) && !pod::terminated(pod)) {
            for found in desired::claimed(pod).iter().filter_map(|c| manager.mounts.resolve(pod, c).ok()) {
                // Known to the memory, so that it leaves the list again should the pod end meanwhile.
                manager.memory.found(&found.volume, &found.driver, &found.handle);
                if manager.attachable(&found.driver) {
                    manager.in_use.insert(&found.volume);
                }
                self.queue.add(found.volume);
            }
        }
        manager.in_use.complete();
    }

    fn follow(&self) {
        let informers = &self.manager.ports.informers;
        let wake = self.clone();
        informers.of::<Pod>().on_change(move |change| change.sides().for_each(|pod| wake.pod(pod)));
        let wake = self.clone();
        informers.of::<PersistentVolumeClaim>().on_change(move |change| {
            change.latest().into_iter().for_each(|claim| wake.claim(claim.namespace(), claim.name()));
        });
        let wake = self.clone();
        informers.of::<PersistentVolume>().on_change(move |change| {
            change.sides().for_each(|pv| wake.volume(pv));
        });
        let wake = self.clone();
        informers.of::<VolumeAttachment>().on_change(move |change| {
            change.latest().into_iter().for_each(|attachment| wake.attachment(attachment));
        });
        let wake = self.clone();
        informers.of::<Node>().on_change(move |change| wake.node(change));
        let wake = self.clone();
        informers.of::<CSIDriver>().on_change(move |change| {
            change.latest().into_iter().for_each(|driver| wake.driver(driver.name()));
        });
        let wake = self.clone();
        self.manager.drivers.on_change(move |driver| wake.driver(driver));
        let queue = self.queue.clone();
        self.manager.in_use.on_accepted(move |name| queue.add(name.to_owned()));
        let wake = self.clone();
        self.manager.tenants.on_change(move |uid| wake.tenant(uid));
    }

    fn here(&self, pod: &Pod) -> bool {
        pod::node_name(pod) == self.manager.node_name
    }

    fn pod(&self, pod: &Pod) {
        if !self.here(pod) {
            return;
        }
        for found in desired::claimed(pod).iter().filter_map(|c| self.manager.mounts.resolve(pod, c).ok()) {
            self.queue.add(found.volume);
        }
        self.manager.memory.of_pod(pod.uid()).into_iter().for_each(|name| self.queue.add(name));
    }

    fn claim(&self, namespace: &str, name: &str) {
        for pod in self.manager.pods.indexed(PODS_BY_CLAIM, &format!("{namespace}/{name}")) {
            self.pod(&pod);
            // What stood in the way of the pod's volumes may have changed, even if no mount does.
            if self.here(&pod) {
                self.manager.memory.changed(pod.uid());
            }
        }
    }

    fn volume(&self, pv: &PersistentVolume) {
        if let Some(name) = volume::unique_name(pv) {
            self.queue.add(name);
        }
        if let Some(claim) = volume::claim_ref(pv) {
            let (namespace, name) = (claim.namespace.as_deref(), claim.name.as_deref());
            self.claim(namespace.unwrap_or_default(), name.unwrap_or_default());
        }
    }

    fn attachment(&self, attachment: &VolumeAttachment) {
        if attachment.spec.node_name != self.manager.node_name {
            return;
        }
        let pv = volume::attachment_volume(attachment).and_then(|name| self.manager.volumes.named(name));
        pv.and_then(|pv| volume::unique_name(&pv)).into_iter().for_each(|name| self.queue.add(name));
    }

    /// Only volumes whose attachment changed: the cost of an event does not grow with their number.
    fn node(&self, change: &Change<Node>) {
        if change.latest().is_none_or(|n| n.name() != self.manager.node_name) {
            return;
        }
        let attached = |side: &Option<Arc<Node>>| -> BTreeSet<String> {
            let node = side.as_deref();
            node.into_iter().flat_map(node::volumes_attached).map(str::to_owned).collect()
        };
        let (old, new) = (attached(&change.old), attached(&change.new));
        old.symmetric_difference(&new).for_each(|name| self.queue.add(name.clone()));
    }

    fn driver(&self, driver: &str) {
        self.manager.memory.of_driver(driver).into_iter().for_each(|name| self.queue.add(name));
    }

    fn tenant(&self, uid: &str) {
        if uid.is_empty() {
            self.manager.memory.names().into_iter().for_each(|name| self.queue.add(name));
        } else {
            self.manager.memory.of_pod(uid).into_iter().for_each(|name| self.queue.add(name));
        }
    }
}
