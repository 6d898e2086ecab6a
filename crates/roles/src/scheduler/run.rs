//! Watches and the queue of the scheduler. Upstream configures it by file, not by flags; there is nothing to set here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Meta, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, keys, pod, volume};
use bowline_machinery::queue::{Backoff, Queue};
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Change, EffectError, Keyed, Object, Ports, Recorder, RunError, Step};

use super::act::Hands;
use super::decide;
use super::observe::{ALL, Sight, UNSCHEDULABLE, UNSCHEDULED, unscheduled};
use super::world::{Action, Observed, Why};
use crate::indexes;

const COMPONENT: &str = "default-scheduler";
/// One at a time: a decision must see the binding before it, or two pods could share what only one may have.
const WORKERS: usize = 1;
/// Upstream waits as long before it chooses again for a claim whose provisioner gave the node back.
const SECOND_CHOICE: Duration = Duration::from_secs(1);
/// Upstream's longest wait after an error; the first is short because most are conflicts.
const BACKOFF: Backoff = Backoff { start: Duration::from_millis(5), max: Duration::from_secs(10) };

/// Runs until `ports.stop`, then finishes what is in flight.
pub async fn run(ports: Ports) -> Result<(), RunError> {
    let sight = Sight::new(&ports.informers);
    let hands = Hands {
        effects: ports.effects(COMPONENT),
        recorder: ports.recorder(COMPONENT),
        host: ports.host.clone(),
        pods: sight.pods.clone(),
    };
    let queue = Queue::new(BACKOFF);
    wire(&sight, &queue, &hands.recorder);
    tokio::select! {
        biased;
        () = ports.stop.cancelled() => return Ok(()),
        () = sight.synced() => {}
    }
    let scheduler = Arc::new(Scheduler { sight, hands });
    let work = move |key: ObjectKey| {
        let scheduler = scheduler.clone();
        async move { reconcile(&*scheduler, &key).await }
    };
    queue.run(WORKERS, ports.stop, work).await;
    Ok(())
}

struct Scheduler {
    sight: Sight,
    hands: Hands,
}

#[async_trait]
impl Keyed for Scheduler {
    type Key = ObjectKey;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        COMPONENT
    }
    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, EffectError> {
        Ok(self.sight.observe(key))
    }
    fn decide(&self, seen: &Observed) -> Step<Action, Why> {
        decide::decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.hands.act(action, &seen).await
    }
    async fn failed(&self, key: &ObjectKey, error: &EffectError) {
        if let Some(pod) = self.sight.pods.get(key) {
            self.hands.recorder.warning(&*pod, "FailedScheduling", error.to_string());
        }
    }
}

/// Which pods a change concerns (reference kube-core.md 2.10).
fn wire(sight: &Sight, queue: &Queue<ObjectKey>, recorder: &Recorder) {
    wire_pods(sight, queue);
    wire_claims(sight, queue, recorder.clone());
    wire_volumes(sight, queue);

    let (to, seen) = (queue.clone(), sight.clone());
    sight.classes.on_change(move |change| {
        let Some(class) = change.latest() else { return };
        wake_searching(&seen, &to, class.name());
    });
    let (to, seen) = (queue.clone(), sight.clone());
    sight.nodes.on_change(move |change: &Change<Node>| {
        if placement_changed(change) {
            wake(&seen, &to, UNSCHEDULED);
        }
    });
    wake_refused_on(&sight.csi_nodes, sight, queue);
    wake_refused_on(&sight.drivers, sight, queue);
    wake_refused_on(&sight.capacities, sight, queue);
    let (to, seen) = (queue.clone(), sight.clone());
    sight.attachments.on_change(move |change| {
        if change.new.is_none() {
            wake(&seen, &to, UNSCHEDULABLE);
        }
    });
}

fn wire_pods(sight: &Sight, queue: &Queue<ObjectKey>) {
    let (to, seen) = (queue.clone(), sight.clone());
    sight.pods.on_change(move |change: &Change<Pod>| {
        if let Some(new) = change.new.as_ref().filter(|new| unscheduled(new)) {
            to.add(new.key());
        }
        let ran = |pod: &Arc<Pod>| !pod::node_name(pod).is_empty() && !pod::terminated(pod);
        let left = change.old.as_ref().is_some_and(ran) && !change.new.as_ref().is_some_and(ran);
        if left {
            wake(&seen, &to, UNSCHEDULABLE);
        }
    });
}

fn wire_claims(sight: &Sight, queue: &Queue<ObjectKey>, recorder: Recorder) {
    let (to, seen) = (queue.clone(), sight.clone());
    sight.claims.on_change(move |change: &Change<PersistentVolumeClaim>| {
        let Some(claim) = change.latest() else { return };
        let given_back = given_back(change);
        for pod in seen.waiting_for(&claim.key()) {
            if let Some(node) = given_back {
                seen.tried.given_back(&pod, node);
                tell_given_back(&recorder, &seen, &pod, claim);
                to.add_after(pod, SECOND_CHOICE);
            } else {
                to.add(pod);
            }
        }
    });
}

/// The node for which a provisioner could not make the volume: it took the choice away again.
fn given_back(change: &Change<PersistentVolumeClaim>) -> Option<&str> {
    let before = change.old.as_ref()?.annotation(keys::SELECTED_NODE)?;
    change.new.as_ref().is_some_and(|now| now.annotation(keys::SELECTED_NODE).is_none()).then_some(before)
}

fn tell_given_back(recorder: &Recorder, sight: &Sight, pod: &ObjectKey, claim: &PersistentVolumeClaim) {
    if let Some(pod) = sight.pods.get(pod) {
        let text = format!(
            "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"{}\"",
            claim.name()
        );
        recorder.warning(&*pod, "FailedScheduling", text);
    }
}

fn wire_volumes(sight: &Sight, queue: &Queue<ObjectKey>) {
    let (to, seen) = (queue.clone(), sight.clone());
    sight.volumes.on_change(move |change: &Change<PersistentVolume>| {
        let Some(latest) = change.latest() else { return };
        let referred = change.sides().filter_map(|side| volume::claim_ref(side)).map(indexes::reference_key);
        let naming = seen.claims.indexed(indexes::CLAIMS_BY_VOLUME, latest.name());
        for claim in referred.chain(naming.iter().map(|claim| claim.key())) {
            seen.waiting_for(&claim).into_iter().for_each(|pod| to.add(pod));
        }
        if change.new.as_deref().is_some_and(indexes::is_free) {
            wake_searching(&seen, &to, volume::volume_class(latest));
        }
    });
}

/// Pods with claims of this class that have no volume yet.
fn wake_searching(sight: &Sight, queue: &Queue<ObjectKey>, class: &str) {
    for claim in sight.claims.indexed(indexes::SEARCHING_CLAIMS_BY_CLASS, class) {
        sight.waiting_for(&claim.key()).into_iter().for_each(|pod| queue.add(pod));
    }
}

/// A pod that is being decided on old sight is not lost: showing its refusal is a change, which wakes it again.
fn wake_refused_on<K: Object>(cache: &bowline_machinery::Cache<K>, sight: &Sight, queue: &Queue<ObjectKey>) {
    let (to, seen) = (queue.clone(), sight.clone());
    cache.on_change(move |_| wake(&seen, &to, UNSCHEDULABLE));
}

fn wake(sight: &Sight, queue: &Queue<ObjectKey>, set: &str) {
    sight.pods.indexed(set, ALL).iter().for_each(|pod| queue.add(pod.key()));
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
