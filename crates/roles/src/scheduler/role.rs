//! The role: watches, and which pods a change concerns. Upstream configures it by file, not by flags.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{CSIDriver, CSINode, CSIStorageCapacity, Meta, Node, ObjectKey, PersistentVolume, Pod};
use bowline_api::{PersistentVolumeClaim, StorageClass, VolumeAttachment, keys, pod, volume};
use bowline_host::Host;
use bowline_machinery::Watches;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{
    Cache, Change, Context, EffectError, Effects, Queue, Recorder, Role, RunError, Step, Told,
};

use k8s_openapi::api::storage::v1::CSINodeDriver;

use super::assumed::Assumed;
use super::decide;
use super::filed::{ALL, UNSCHEDULABLE, UNSCHEDULED};
use super::model::{Action, Observed, Why};
use super::observe::unscheduled;
use super::tried::Tried;
use super::unread::Unread;
use crate::indexes;

/// Upstream waits as long before it chooses again for a claim whose provisioner gave the node back.
const SECOND_CHOICE: Duration = Duration::from_secs(1);

pub struct Scheduler {
    pub(super) pods: Cache<Pod>,
    pub(super) nodes: Cache<Node>,
    pub(super) claims: Cache<PersistentVolumeClaim>,
    pub(super) volumes: Cache<PersistentVolume>,
    pub(super) classes: Cache<StorageClass>,
    pub(super) drivers: Cache<CSIDriver>,
    pub(super) csi_nodes: Cache<CSINode>,
    pub(super) capacities: Cache<CSIStorageCapacity>,
    pub(super) attachments: Cache<VolumeAttachment>,
    pub(super) tried: Tried,
    told: Told<ObjectKey>,
    pub(super) assumed: Assumed,
    pub(super) unread: Unread,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) host: Host,
}

#[async_trait]
impl Role for Scheduler {
    const NAME: &'static str = "default-scheduler";
    /// One at a time: a decision must see the binding before it, or two pods could share what only one may have.
    const WORKERS: usize = 1;
    type Settings = ();
    type Key = ObjectKey;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<ObjectKey>, _: ()) -> Result<Self, RunError> {
        let informers = &context.ports.informers;
        let scheduler = Self {
            pods: informers.of(),
            nodes: informers.of(),
            claims: informers.of(),
            volumes: informers.of(),
            classes: informers.of(),
            drivers: informers.of(),
            csi_nodes: informers.of(),
            capacities: informers.of(),
            attachments: informers.of(),
            tried: Tried::default(),
            told: Told::default(),
            assumed: Assumed::default(),
            unread: Unread::default(),
            effects: context.effects,
            recorder: context.recorder,
            host: context.ports.host,
        };
        scheduler.add_indexes();
        Ok(scheduler)
    }

    /// Reference kube-core.md 2.10.
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.pods, Self::pod_changed).on(&self.claims, Self::claim_changed);
        watches.on(&self.volumes, Self::volume_changed);
        watches.on(&self.classes, |role, change, queue| {
            change.latest().iter().for_each(|class| role.wake_searching(class.name(), queue));
        });
        watches.on(&self.nodes, |role, change, queue| {
            if placement_changed(change) {
                role.wake(UNSCHEDULED, queue);
            }
        });
        // A pod that is being decided on older data is not lost: showing its refusal is a change, which wakes it again.
        watches.on(&self.attachments, Self::attachment_changed).on(&self.csi_nodes, Self::csi_node_changed);
        watches.on(&self.drivers, Self::driver_changed).on(&self.capacities, Self::capacity_changed);
    }

    async fn prepare(&self, _: &ObjectKey) -> Result<(), EffectError> {
        self.read_back().await
    }
    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
        Ok(self.see(key))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, &seen).await
    }
    /// `MarkUnschedulable` has told it; this is for pods that wait longer than the API server keeps events.
    fn waiting(&self, key: &ObjectKey, seen: &Observed, why: &Why) {
        if let Why::Unschedulable(text) = why
            && self.told.repeats(key, text)
        {
            self.recorder.warning(&*seen.pod, "FailedScheduling", text);
        }
    }
    fn settled(&self, key: &ObjectKey) {
        if self.pods.get(key).is_none_or(|pod| !unscheduled(&pod)) {
            self.tried.forget(key);
            self.told.forget(key);
        }
    }
    async fn failed(&self, key: &ObjectKey, error: &EffectError) {
        if let Some(pod) = self.pods.get(key) {
            self.recorder.warning(&*pod, "FailedScheduling", error.to_string());
        }
    }
    /// Upstream's longest wait after an error; the first is short because most are conflicts.
    fn backoff(&self) -> Backoff {
        Backoff { start: Duration::from_millis(5), max: Duration::from_secs(10) }
    }
}

impl Scheduler {
    fn pod_changed(&self, change: &Change<Pod>, queue: &Queue<ObjectKey>) {
        let new = change.new.as_ref().filter(|new| unscheduled(new));
        if let Some(new) = new {
            queue.add(new.key());
        }
        if let Some(pod) = change.latest() {
            self.assumed.set(&pod.key(), new.and_then(|new| self.chosen(new)).as_deref());
        }
        let ran = |pod: &Arc<Pod>| !pod::node_name(pod).is_empty() && !pod::terminated(pod);
        let left = change.old.as_ref().filter(|_| !change.new.as_ref().is_some_and(ran));
        if let Some(left) = left.filter(|left| ran(left)) {
            self.volumes_of(left).keys().for_each(|driver| self.wake_users(driver, queue));
            for (_, claim) in pod::claims(left) {
                let claim = ObjectKey::new(left.namespace(), claim);
                self.waiting_for(&claim).into_iter().for_each(|pod| queue.add(pod));
            }
        }
    }

    /// A place for a volume of this driver is free again.
    pub(super) fn attachment_changed(&self, change: &Change<VolumeAttachment>, queue: &Queue<ObjectKey>) {
        if let (Some(gone), None) = (&change.old, &change.new) {
            self.wake_users(&gone.spec.attacher, queue);
        }
    }

    /// Of a CSINode only the limits are looked at.
    pub(super) fn csi_node_changed(&self, change: &Change<CSINode>, queue: &Queue<ObjectKey>) {
        let limits = |node: &Arc<CSINode>| -> BTreeSet<(String, Option<i32>)> {
            let limit = |d: &CSINodeDriver| (d.name.clone(), d.allocatable.as_ref().and_then(|a| a.count));
            node.spec.drivers.iter().map(limit).collect()
        };
        let before = change.old.as_ref().map(limits).unwrap_or_default();
        let now = change.new.as_ref().map(limits).unwrap_or_default();
        let changed: BTreeSet<&String> =
            before.symmetric_difference(&now).map(|(driver, _)| driver).collect();
        changed.into_iter().for_each(|driver| self.wake_users(driver, queue));
    }

    /// Of a CSIDriver only whether it publishes its capacity is looked at.
    pub(super) fn driver_changed(&self, change: &Change<CSIDriver>, queue: &Queue<ObjectKey>) {
        let publishes = |driver: &Arc<CSIDriver>| driver.spec.storage_capacity.unwrap_or(false);
        if change.old.as_ref().map(publishes) != change.new.as_ref().map(publishes)
            && let Some(driver) = change.latest()
        {
            self.wake_users(driver.name(), queue);
        }
    }

    pub(super) fn capacity_changed(&self, change: &Change<CSIStorageCapacity>, queue: &Queue<ObjectKey>) {
        let classes: BTreeSet<&String> =
            change.sides().map(|capacity| &capacity.storage_class_name).collect();
        classes.into_iter().for_each(|class| self.wake_searching(class, queue));
    }

    /// Pods without a place that bring a volume of this driver.
    fn wake_users(&self, driver: &str, queue: &Queue<ObjectKey>) {
        let refused = self.pods.indexed(UNSCHEDULABLE, ALL).into_iter();
        let users = refused.filter(|pod| self.volumes_of(pod).contains_key(driver));
        users.for_each(|pod| queue.add(pod.key()));
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>, queue: &Queue<ObjectKey>) {
        let Some(claim) = change.latest() else { return };
        let given_back = given_back(change);
        for pod in self.waiting_for(&claim.key()) {
            let waiting = self.pods.get(&pod);
            self.assumed.set(&pod, waiting.and_then(|waiting| self.chosen(&waiting)).as_deref());
            if let Some(node) = given_back {
                self.tried.given_back(&pod, node);
                self.tell_given_back(&pod, claim);
                queue.add_after(pod, SECOND_CHOICE);
            } else {
                queue.add(pod);
            }
        }
    }

    fn tell_given_back(&self, pod: &ObjectKey, claim: &PersistentVolumeClaim) {
        if let Some(pod) = self.pods.get(pod) {
            let text = format!(
                "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"{}\"",
                claim.name()
            );
            self.recorder.warning(&*pod, "FailedScheduling", text);
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>, queue: &Queue<ObjectKey>) {
        let Some(latest) = change.latest() else { return };
        let referred = change.sides().filter_map(|side| volume::claim_ref(side)).map(indexes::reference_key);
        let naming = self.claims.indexed(indexes::CLAIMS_BY_VOLUME, latest.name());
        for claim in referred.chain(naming.iter().map(|claim| claim.key())) {
            self.waiting_for(&claim).into_iter().for_each(|pod| queue.add(pod));
        }
        if change.new.as_deref().is_some_and(indexes::is_free) {
            self.wake_searching(volume::volume_class(latest), queue);
        }
    }

    /// Pods with claims of this class that have no volume yet.
    fn wake_searching(&self, class: &str, queue: &Queue<ObjectKey>) {
        for claim in self.claims.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, class) {
            self.waiting_for(&claim.key()).into_iter().for_each(|pod| queue.add(pod));
        }
    }

    fn wake(&self, set: &str, queue: &Queue<ObjectKey>) {
        self.pods.indexed(set, ALL).iter().for_each(|pod| queue.add(pod.key()));
    }
}

/// The node for which a provisioner could not make the volume: it took the choice away again.
fn given_back(change: &Change<PersistentVolumeClaim>) -> Option<&str> {
    let before = change.old.as_ref()?.annotation(keys::SELECTED_NODE)?;
    change.new.as_ref().is_some_and(|now| now.annotation(keys::SELECTED_NODE).is_none()).then_some(before)
}

/// Node status changes all the time; only what a filter looks at counts.
fn placement_changed(change: &Change<Node>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let looked_at = |node: &Node| {
        let spec = node.spec.clone().unwrap_or_default();
        (node.metadata.labels.clone(), spec.taints, spec.unschedulable)
    };
    looked_at(old) != looked_at(new)
}
