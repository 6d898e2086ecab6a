//! Wiring: directory watch, queue.

use std::path::Path;
use std::sync::Arc;

use bowline_api::{CSINode, Meta, Node};
use bowline_machinery::queue::Backoff;
use bowline_machinery::reconcile::reconcile;
use bowline_machinery::{Ports, Queue, RunError};

use super::act::Manager;
use super::drivers::Drivers;
use super::memory::Memory;
use super::world::Key;

/// Registrations at the same time.
const WORKERS: usize = 8;

/// Runs until stopped. `registry` is `<kubelet-dir>/plugins_registry`; `drivers` is filled for whoever mounts.
pub async fn run(ports: Ports, node_name: &str, registry: &Path, drivers: Drivers) -> Result<(), RunError> {
    let (nodes, csi_nodes) = (ports.informers.of::<Node>(), ports.informers.of::<CSINode>());
    let (queue, memory) = (Queue::<Key>::new(Backoff::VOLUME), Memory::default());
    let manager = Arc::new(Manager {
        ports: ports.clone(),
        effects: ports.effects("kubelet"),
        node_name: node_name.to_owned(),
        memory: memory.clone(),
        drivers,
        queue: queue.clone(),
    });

    // A plugin may be there before Node and CSINode are: those who wait are looked at again.
    let (name, again, sockets) = (node_name.to_owned(), queue.clone(), memory.clone());
    nodes.on_change(move |change| wake(change.new.as_deref(), &name, &sockets, &again));
    let (name, again, sockets) = (node_name.to_owned(), queue.clone(), memory.clone());
    csi_nodes.on_change(move |change| wake(change.new.as_deref(), &name, &sockets, &again));
    nodes.synced().await;
    csi_nodes.synced().await;

    let watch = ports.host.net.watch_dir(registry).await;
    let path = registry.display().to_string();
    let mut events = watch.map_err(|source| RunError::Io { what: "watch", path, source })?;
    let (stop, found) = (ports.stop.clone(), queue.clone());
    let watcher = async move {
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                event = events.recv() => event,
            };
            let Some(event) = event else { return };
            tracing::debug!(?event, "plugin socket");
            found.add(Key::Socket(memory.take(&event)));
        }
    };
    let work = move |key: Key| {
        let manager = manager.clone();
        async move { reconcile(manager.as_ref(), &key).await }
    };
    tokio::join!(watcher, queue.run(WORKERS, ports.stop.clone(), work));
    Ok(())
}

fn wake<K: Meta>(object: Option<&K>, node_name: &str, memory: &Memory, queue: &Queue<Key>) {
    if object.is_some_and(|o| o.name() == node_name) {
        memory.unfinished().into_iter().for_each(|path| queue.add(Key::Socket(path)));
    }
}
