//! The judge: reads what the store has published, what the driver was asked and has done, and the mount table, and checks
//! every promise of the design that applies so far. One function per promise, named by its number.
//!
//! | promise | where | what is judged |
//! |---|---|---|
//! | BIND-1 | `objects` | partners at each moment and over time, by UID |
//! | BIND-2 | `objects`, `machine` | mode, size, access modes, class; the node of a running pod |
//! | PROV-1 | `provision` | stored before it is sent; one name per claim UID, one id per name |
//! | PROV-2 | `provision`, `left` | no DeleteVolume while a claim has it; nothing left at the end |
//! | PROV-3 | `provision`, `left` | no DeleteVolume of what is retained, and it is there at the end |
//! | ATT-1 | `calls`, `objects` | the finalizer around ControllerPublish and ControllerUnpublish |
//! | ATT-2 | `calls`, `objects` | one node, by calls, objects and mounts; one pod for ReadWriteOncePod |
//! | ATT-3 | `calls` | no detach and no delete under a mount; staged only what is attached and in use |
//! | NODE-1 | `calls` | order of the calls of a node, one at a time per volume |
//! | NODE-2 | `machine` | bytes that a pod wrote are there for the next one |
//! | NODE-3 | `machine` | containers and their volumes outlive their kubelet |
//! | RES-1 | `objects` | claim, volume and driver agree about bytes; none shrinks |
//! | SEC-1 | `secrets`, `rights` | objects, events, files and, in some histories, logs; what each role asks for |
//! | SEC-2 | `machine` | what containers see is in their own pod's directory |
//! | API-1 | here | versions grow |
//! | API-2 | here | what was published before the API servers crash is there after it |
//!
//! Without a number: only the holder of a lease has effects (LEASE, here), no program repeats itself without a pause
//! (LOOP, `busy`), and once the faults are over every claim that has a volume can be used (`workload/journey`).
//!
//! Not judged here: SNAP-1 (no role makes snapshots yet), tails of the store's files (the kill sweeps of the store),
//! FENCE-1 (nothing fences yet), and the kernel's part of SEC-2 (tests on a real kernel).

mod busy;
mod calls;
mod left;
mod machine;
mod objects;
mod provision;
mod rights;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_api::node::out_of_service;
use bowline_api::{Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};
use bowline_apiserver::Store;
use bowline_apiserver::store::{Event, EventKind, Watcher};
use bowline_host::fake::FakeHost;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

pub use machine::{NODES_DIR, POOL, kubelet_dir};
pub use secrets::{Logs, SECRET};

/// The longest renew deadline, and what is on its way then.
const STOLEN: Duration = Duration::from_secs(20);

/// Objects by key, as the store has them.
pub type Objects<K> = BTreeMap<ObjectKey, Arc<K>>;

/// What the judge knows.
pub struct Oracle {
    machine: Arc<FakeHost>,
    watchers: Vec<(Table, Watcher)>,
    pub claims: Objects<PersistentVolumeClaim>,
    pub volumes: Objects<PersistentVolume>,
    /// The last object of each backend volume whose object has gone.
    gone: BTreeMap<String, Arc<PersistentVolume>>,
    pub attachments: Objects<VolumeAttachment>,
    pub pods: Objects<Pod>,
    nodes: BTreeMap<String, Arc<Node>>,
    /// The labels that each node has had: its machine stays where it is when its object is deleted.
    places: BTreeMap<String, BTreeMap<String, String>>,
    /// Nodes whose objects were deleted at some time.
    nodes_deleted: BTreeSet<String>,
    busy: busy::Busy,
    /// When each node was last said to be out of service, or not any more.
    out_of_service: BTreeMap<String, Instant>,
    calls: calls::Calls,
    backend: provision::Backend,
    /// Volumes that have had a pod: their bytes must stay.
    marked: BTreeSet<String>,
    /// Pods that lived when the machine lost power.
    struck_down: BTreeSet<String>,
    /// Who holds each lease.
    holders: BTreeMap<String, String>,
    /// A person gave the leases away: until then two processes may believe that they lead.
    stolen_until: Option<Instant>,
    version: u64,
    pub violations: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Claims,
    Volumes,
    Attachments,
    Pods,
    Leases,
    Nodes,
    Events,
}

const TABLES: [(Table, &str); 7] = [
    (Table::Claims, "persistentvolumeclaims"),
    (Table::Volumes, "persistentvolumes"),
    (Table::Attachments, "volumeattachments.storage.k8s.io"),
    (Table::Pods, "pods"),
    (Table::Leases, "leases.coordination.k8s.io"),
    (Table::Nodes, "nodes"),
    (Table::Events, "events"),
];

impl Oracle {
    pub fn new(machine: Arc<FakeHost>, store: &Store) -> Self {
        let version = store.version();
        Self {
            machine,
            watchers: watchers(store),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            gone: BTreeMap::new(),
            attachments: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            places: BTreeMap::new(),
            nodes_deleted: BTreeSet::new(),
            busy: busy::Busy::default(),
            out_of_service: BTreeMap::new(),
            calls: calls::Calls::default(),
            backend: provision::Backend::default(),
            marked: BTreeSet::new(),
            struck_down: BTreeSet::new(),
            holders: BTreeMap::new(),
            stolen_until: None,
            version,
            violations: Vec::new(),
        }
    }

    /// Other servers have started with what the disk had. Whatever was published is still there (API-2).
    pub fn restarted(&mut self, store: &Store) {
        self.look();
        let lost = |table: Table, key: &ObjectKey, version: u64| {
            let name = TABLES.iter().find(|(of, _)| *of == table).map_or("", |(_, name)| *name);
            let kept = store.get(name, key).is_some_and(|object| object.version == version);
            (!kept).then(|| format!("API-2: {name} {key} at version {version} was published and is lost"))
        };
        let claims = self.claims.iter().filter_map(|(key, one)| lost(Table::Claims, key, one.version()));
        let volumes = self.volumes.iter().filter_map(|(key, one)| lost(Table::Volumes, key, one.version()));
        let attachments =
            self.attachments.iter().filter_map(|(key, one)| lost(Table::Attachments, key, one.version()));
        let pods = self.pods.iter().filter_map(|(key, one)| lost(Table::Pods, key, one.version()));
        let lost: Vec<String> = claims.chain(volumes).chain(attachments).chain(pods).collect();
        lost.into_iter().for_each(|text| self.broken(text));
        self.watchers = watchers(store);
    }

    /// Takes in what the store has published since the last look.
    pub fn look(&mut self) {
        let mut events: Vec<(Table, Arc<Event>)> = Vec::new();
        for (table, watcher) in &mut self.watchers {
            // In batches, until there is no more: what is left for the next look would seem to come too late.
            loop {
                match watcher.ready() {
                    Ok(ready) if ready.is_empty() => break,
                    Ok(ready) => events.extend(ready.into_iter().map(|event| (*table, event))),
                    Err(gone) => {
                        self.violations.push(format!("API-1: the store forgot what was not read: {gone:?}"));
                        break;
                    }
                }
            }
        }
        events.sort_by_key(|(_, event)| event.version);
        for (table, event) in events {
            self.api_1(event.version);
            self.take(table, &event);
        }
    }

    /// Versions grow.
    fn api_1(&mut self, version: u64) {
        if version <= self.version {
            self.broken(format!("API-1: version {version} came after {}", self.version));
        }
        self.version = self.version.max(version);
    }

    fn take(&mut self, table: Table, event: &Event) {
        self.sec_1_object(event);
        match table {
            Table::Events => {}
            Table::Nodes => self.node_changed(event),
            Table::Claims => {
                let (old, new) = apply(&mut self.claims, event);
                self.claim_changed(old.as_deref(), new.as_deref());
            }
            Table::Volumes => {
                let (old, new) = apply(&mut self.volumes, event);
                self.volume_changed(old.as_deref(), new.as_deref());
                if let (Some(old), None) = (old, new)
                    && let Some(csi) = bowline_api::volume::csi(&old)
                {
                    self.gone.insert(csi.volume_handle.clone(), old.clone());
                }
            }
            Table::Attachments => {
                let (old, new) = apply(&mut self.attachments, event);
                self.attachment_changed(old.as_deref(), new.as_deref());
            }
            Table::Pods => {
                let (_, new) = apply(&mut self.pods, event);
                if let Some(pod) = new {
                    self.pod_changed(&pod);
                }
            }
            Table::Leases => {
                let lease: bowline_api::Lease =
                    serde_json::from_slice(&event.object.json).unwrap_or_default();
                self.intent_changed(&lease, event.kind == EventKind::Deleted);
                let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                self.holders.insert(event.object.key.name.clone(), holder);
            }
        }
    }

    fn node_changed(&mut self, event: &Event) {
        let name = event.object.key.name.clone();
        if event.kind == EventKind::Deleted {
            self.nodes.remove(&name);
            self.nodes_deleted.insert(name);
        } else if let Ok(node) = serde_json::from_slice::<Node>(&event.object.json) {
            let before = self.nodes.get(&name).is_some_and(|before| out_of_service(before));
            if before || out_of_service(&node) {
                self.out_of_service.insert(name.clone(), Instant::now());
            }
            let labels = node.metadata.labels.clone().unwrap_or_default();
            self.places.entry(name.clone()).or_default().extend(labels);
            self.nodes.insert(name, Arc::new(node));
        }
    }

    /// Only the holder of a lease does anything. Others wait for the whole lease after its last renewal, and it gives up
    /// sooner, so there is never a doubt.
    pub fn leads(&mut self, process: &str, lease: &str, effect: &str) {
        self.look();
        let holder = self.holders.get(lease).map(String::as_str);
        let stolen = self.stolen_until.is_some_and(|until| Instant::now() < until);
        if !stolen && holder != Some(process) {
            self.broken(format!("LEASE: {process} does `{effect}` while {holder:?} holds {lease}"));
        }
    }

    /// A person gives the leases away: who led learns it at the next renewal, at the latest when the last one ends.
    pub fn stolen(&mut self) {
        self.stolen_until = Some(Instant::now() + STOLEN);
    }

    pub(crate) fn broken(&mut self, text: String) {
        if !self.violations.contains(&text) {
            self.violations.push(text);
        }
    }

    /// The object of a backend volume, or the last that it had.
    fn volume_of(&self, handle: &str) -> Option<&Arc<PersistentVolume>> {
        let has = |volume: &&Arc<PersistentVolume>| {
            bowline_api::volume::csi(volume).is_some_and(|csi| csi.volume_handle == handle)
        };
        self.volumes.values().find(has).or_else(|| self.gone.get(handle))
    }
}

/// What the store publishes from now on.
fn watchers(store: &Store) -> Vec<(Table, Watcher)> {
    let version = store.version();
    let watch = |(table, name): (Table, &str)| Some((table, store.watch(&Arc::from(name), version).ok()?));
    TABLES.into_iter().filter_map(watch).collect()
}

fn apply<K: DeserializeOwned + Meta>(
    objects: &mut Objects<K>,
    event: &Event,
) -> (Option<Arc<K>>, Option<Arc<K>>) {
    let key = event.object.key.clone();
    if event.kind == EventKind::Deleted {
        return (objects.remove(&key), None);
    }
    match serde_json::from_slice::<K>(&event.object.json) {
        Ok(object) => {
            let object = Arc::new(object);
            (objects.insert(key, object.clone()), Some(object))
        }
        Err(_) => (None, None),
    }
}
