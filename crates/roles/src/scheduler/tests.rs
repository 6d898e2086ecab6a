//! Decision tables (reference kube-core.md 2.2 to 2.8 and 9.4) and the properties behind the promises.

mod claims;
mod nodes;
mod steps;
mod volumes;
mod wakes;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_api::{
    Meta, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, build, keys, volume,
};
use bowline_machinery::Step;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference, PersistentVolumeSpec,
    PersistentVolumeStatus, VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::decide::decide;
use super::model::{Action, ClaimSeen, NodeSeen, Observed, Room, Why};

const DRIVER: &str = "local.example.com";

/// A pod `p` without claims, and no nodes.
fn pod() -> Observed {
    let mut pod = build::pod("p").build();
    pod.metadata.uid = Some("uid-p".into());
    Observed { pod: Arc::new(pod), claims: Vec::new(), nodes: Vec::new(), brings: BTreeMap::new() }
}

impl Observed {
    fn on(mut self, nodes: impl IntoIterator<Item = NodeSeen>) -> Self {
        self.nodes.extend(nodes);
        self
    }
    fn using(mut self, claims: impl IntoIterator<Item = ClaimSeen>) -> Self {
        self.claims.extend(claims);
        self
    }
    fn bringing(mut self, volumes: &[&str]) -> Self {
        self.brings.insert(DRIVER.into(), volumes.iter().map(|v| String::from(*v)).collect());
        self
    }
    fn changed(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(Arc::make_mut(&mut self.pod));
        self
    }
}

/// A node with its own name and zone `z` as labels.
fn node(name: &str) -> NodeSeen {
    let mut node = Node::default();
    node.metadata.name = Some(name.into());
    let labels = [(keys::HOSTNAME_LABEL, name), ("zone", "z")];
    node.metadata.labels = Some(labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    NodeSeen { node: Arc::new(node), given_back: 0, load: 0, rooms: BTreeMap::new() }
}

impl NodeSeen {
    fn load(mut self, pods: usize) -> Self {
        self.load = pods;
        self
    }
    fn changed(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(Arc::make_mut(&mut self.node));
        self
    }
    fn room(mut self, limit: usize, used: &[&str]) -> Self {
        let used: BTreeSet<String> = used.iter().map(|v| String::from(*v)).collect();
        self.rooms.insert(DRIVER.into(), Room { limit, used });
        self
    }
}

fn wffc() -> StorageClass {
    build::class("late", DRIVER).wait_for_consumer().build()
}

/// A pending claim of a class that waits for its first consumer.
fn claim(name: &str) -> ClaimSeen {
    let mut claim = build::claim(name).class("late").build();
    claim.metadata.uid = Some(format!("uid-{name}"));
    claim.status.get_or_insert_default().phase = Some(volume::PENDING.into());
    ClaimSeen {
        name: name.into(),
        ephemeral: false,
        claim: Some(Arc::new(claim)),
        class: Some(Arc::new(wffc())),
        volume: None,
        candidates: Vec::new(),
        capacities: None,
        other_user: None,
    }
}

impl ClaimSeen {
    fn changed(mut self, change: impl FnOnce(&mut PersistentVolumeClaim)) -> Self {
        change(Arc::make_mut(self.claim.as_mut().unwrap()));
        self
    }
    fn class(mut self, class: StorageClass) -> Self {
        self.class = Some(Arc::new(class));
        self
    }
    fn gone(mut self) -> Self {
        self.claim = None;
        self
    }
    fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }
    fn size(self, size: &str) -> Self {
        let size = size.to_owned();
        self.changed(|c| {
            let requests = BTreeMap::from([(volume::STORAGE.to_owned(), Quantity(size))]);
            c.spec.as_mut().unwrap().resources.get_or_insert_default().requests = Some(requests);
        })
    }
    fn selected(self, node: &str) -> Self {
        self.changed(|c| c.set_annotation(keys::SELECTED_NODE, node))
    }
    fn naming(self, volume: &str) -> Self {
        self.changed(|c| c.spec.as_mut().unwrap().volume_name = Some(volume.into()))
    }
    fn bound(mut self, to: PersistentVolume) -> Self {
        let name = to.name().to_owned();
        self.volume = Some(Arc::new(to));
        self.naming(&name).changed(|c| c.set_annotation(keys::BIND_COMPLETED, keys::YES))
    }
    fn near(mut self, volumes: impl IntoIterator<Item = PersistentVolume>) -> Self {
        self.candidates.extend(volumes.into_iter().map(Arc::new));
        self
    }
}

/// A free volume of class `late`, reachable from everywhere.
fn volume(name: &str) -> PersistentVolume {
    let spec = PersistentVolumeSpec {
        access_modes: Some(vec![volume::READ_WRITE_ONCE.into()]),
        capacity: Some([(volume::STORAGE.to_owned(), Quantity("1Gi".into()))].into()),
        storage_class_name: Some("late".into()),
        ..Default::default()
    };
    let mut new = PersistentVolume { spec: Some(spec), ..Default::default() };
    new.metadata.name = Some(name.into());
    new.status = Some(PersistentVolumeStatus { phase: Some(volume::AVAILABLE.into()), ..Default::default() });
    new
}

/// A volume that only one node reaches.
fn volume_on(name: &str, node: &str) -> PersistentVolume {
    let here = NodeSelectorRequirement {
        key: keys::HOSTNAME_LABEL.into(),
        operator: "In".into(),
        values: Some(vec![node.into()]),
    };
    let terms = vec![NodeSelectorTerm { match_expressions: Some(vec![here]), match_fields: None }];
    let mut new = volume(name);
    let required = Some(NodeSelector { node_selector_terms: terms });
    new.spec.as_mut().unwrap().node_affinity = Some(VolumeNodeAffinity { required });
    new
}

fn reserved_for(mut volume: PersistentVolume, claim: &str) -> PersistentVolume {
    volume.spec.as_mut().unwrap().claim_ref = Some(ObjectReference {
        namespace: Some("default".into()),
        name: Some(claim.into()),
        uid: Some(format!("uid-{claim}")),
        ..Default::default()
    });
    volume
}

fn bind(node: &str) -> Step<Action, Why> {
    Step::Do(Action::Bind { node: node.into() })
}
fn select(claim: &str, node: &str) -> Step<Action, Why> {
    Step::Do(Action::SelectNode { claim: claim.into(), node: node.into() })
}
fn reserve(claim: &str, volume: &str) -> Step<Action, Why> {
    Step::Do(Action::Reserve { claim: claim.into(), volume: volume.into() })
}
fn waits_on(node: &str) -> Step<Action, Why> {
    Step::Wait(Why::Volumes { node: node.into() })
}
fn refused(text: &str) -> Step<Action, Why> {
    Step::Do(Action::MarkUnschedulable { text: text.into() })
}
/// What people read when the only node refused for good.
fn refused_by_one(reason: &str) -> Step<Action, Why> {
    refused(&format!(
        "0/1 nodes are available: 1 {reason}. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    ))
}

fn check(table: impl IntoIterator<Item = (&'static str, Observed, Step<Action, Why>)>) {
    for (name, seen, expected) in table {
        assert_eq!(decide(&seen), expected, "{name}");
    }
}
