//! Wiring: watches of the node's own objects, and the two safety timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_api::{CSINode, Lease, Meta, Namespace, Node, keys};
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Cache, Change, Object, Ports, Queue, RunError};

use super::act::Status;
use super::in_use::InUse;
use super::machine::Machine;
use super::world::LEASE_RENEWAL;

/// Turns the node to not ready before it stops; clones share it.
#[derive(Clone, Default)]
pub struct Switch {
    off: Arc<AtomicBool>,
    wake: Arc<std::sync::Mutex<Option<Queue<String>>>>,
    node: String,
}

impl Switch {
    pub fn new(node_name: &str) -> Self {
        Self { node: node_name.to_owned(), ..Self::default() }
    }

    /// The node is reported as not ready from now on.
    pub fn turn_off(&self) {
        self.off.store(true, Ordering::SeqCst);
        let wake = self.wake.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(queue) = wake.as_ref() {
            queue.add(self.node.clone());
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    fn wakes(&self, queue: Queue<String>) {
        *self.wake.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(queue);
    }
}

/// Registers the node and keeps its status until stopped; then reports it as not ready.
pub async fn run(
    ports: Ports,
    node_name: &str,
    kubelet_port: Option<u16>,
    in_use: InUse,
    switch: Switch,
) -> Result<(), RunError> {
    let queue = Queue::<String>::new(Backoff::VOLUME);
    let name = node_name.to_owned();
    follow(&ports.informers.of::<Node>(), &queue, &name, &name);
    follow(&ports.informers.of::<CSINode>(), &queue, &name, &name);
    // The lease is not followed: only we write it, and it is looked at with each renewal.
    follow(&ports.informers.of::<Namespace>(), &queue, &name, keys::NODE_LEASE_NAMESPACE);
    let (wake, key) = (queue.clone(), name.clone());
    in_use.on_wanted(move || wake.add(key.clone()));
    switch.wakes(queue.clone());
    ports.informers.of::<Node>().synced().await;
    ports.informers.of::<CSINode>().synced().await;
    ports.informers.of::<Namespace>().synced().await;
    ports.informers.of::<Lease>().synced().await;

    let status = Arc::new(Status {
        effects: ports.effects("kubelet"),
        machine: Machine::read(&ports.host, kubelet_port).await,
        node_name: name.clone(),
        in_use,
        switch: switch.clone(),
        ports: ports.clone(),
    });
    queue.add(name.clone());
    let (stop, tick, key) = (ports.stop.clone(), queue.clone(), name.clone());
    let timer = async move {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LEASE_RENEWAL) => tick.add(key.clone()),
            }
        }
    };
    let last = status.clone();
    let work = move |key: String| {
        let status = status.clone();
        async move { reconcile(status.as_ref(), &key).await }
    };
    tokio::join!(timer, queue.run(1, ports.stop.clone(), work));
    switch.turn_off();
    // Best effort: whoever stops us may have stopped the API server, too.
    reconcile(last.as_ref(), &name).await;
    Ok(())
}

fn follow<K: Object>(cache: &Cache<K>, queue: &Queue<String>, node_name: &str, watched: &str) {
    let (queue, key, watched) = (queue.clone(), node_name.to_owned(), watched.to_owned());
    cache.on_change(move |change: &Change<K>| {
        if change.latest().is_some_and(|object| object.name() == watched) {
            queue.add(key.clone());
        }
    });
}
