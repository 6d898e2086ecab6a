//! The role: a directory and two watches.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{CSIDriver, CSINode, Meta, Node};
use bowline_host::net::DirEvent;
use bowline_machinery::backoff::Backoff as Pauses;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Cache, Context, EffectError, Effects, Ports, Queue, Role, RunError, Step, Watches};

use tokio::sync::mpsc;

use super::decide::decide;
use super::drivers::Drivers;
use super::memory::Memory;
use super::model::{Action, Key, Observed, Why};

/// What the plugin manager shares with the other parts of the kubelet.
pub struct Settings {
    pub node_name: String,
    /// `<kubelet-dir>/plugins_registry`
    pub registry: PathBuf,
    /// Filled for the volume manager.
    pub drivers: Drivers,
}

pub struct Manager {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) node_name: String,
    pub(super) nodes: Cache<Node>,
    pub(super) csi_nodes: Cache<CSINode>,
    pub(super) csi_drivers: Cache<CSIDriver>,
    pub(super) memory: Memory,
    pub(super) drivers: Drivers,
    pub(super) queue: Queue<Key>,
    registry: PathBuf,
}

#[async_trait]
impl Role for Manager {
    const NAME: &'static str = "pluginmanager";
    const COMPONENT: &'static str = "kubelet";
    /// Registrations at the same time.
    const WORKERS: usize = 8;
    type Settings = Settings;
    type Key = Key;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<Key>, settings: Settings) -> Result<Self, RunError> {
        let Context { ports, effects, queue, .. } = context;
        let Settings { node_name, registry, drivers } = settings;
        let (nodes, csi_nodes, csi_drivers) =
            (ports.informers.of(), ports.informers.of(), ports.informers.of());
        let memory = Memory::default();
        Ok(Self {
            ports,
            effects,
            node_name,
            nodes,
            csi_nodes,
            csi_drivers,
            memory,
            drivers,
            queue,
            registry,
        })
    }
    /// A plugin may be there before Node and CSINode are, and both may be deleted and come back without it.
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.nodes, |role, change, _| role.wake(change.new.as_deref()));
        watches.on(&self.csi_nodes, |role, change, _| role.wake(change.new.as_deref()));
        // The period between two questions may have changed.
        watches.on(&self.csi_drivers, |role, _, queue| {
            role.memory.known().into_iter().for_each(|path| queue.add(Key::Socket(path)));
        });
        let role = watches.role();
        self.drivers.on_refresh(move |driver| {
            if let Some(role) = role.upgrade() {
                role.memory.set_asked(driver, None);
                role.memory.known().into_iter().for_each(|path| role.queue.add(Key::Socket(path)));
            }
        });
    }
    /// Follows the directory; without it no driver can come, but the pods of others go on.
    async fn alongside(&self) -> Result<(), RunError> {
        let mut pauses = Pauses::new(self.ports.host.random.clone());
        loop {
            let why = match self.ports.host.net.watch_dir(&self.registry).await {
                Ok(events) => {
                    self.follow(events).await;
                    "the watch ended".to_owned()
                }
                Err(error) => error.to_string(),
            };
            let (path, pause) = (self.registry.display(), pauses.failed());
            tracing::error!(%path, why, ?pause, "cannot watch for plugins, trying again; `sysctl fs.inotify` shows the limits");
            tokio::time::sleep(pause).await;
        }
    }
    async fn observe(&self, key: &Key) -> Result<Option<Observed>, EffectError> {
        Ok(Some(self.see(key)))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn look_again(&self, key: &Key) -> Option<Duration> {
        let due = match key {
            Key::Departed(driver) => self.memory.due(driver),
            Key::Socket(path) => self.refresh_at(path),
        };
        due.map(|due| due.saturating_sub(self.ports.host.uptime.uptime()))
    }
    fn backoff(&self) -> Backoff {
        Backoff::VOLUME
    }
}

impl Manager {
    /// Sockets that went while nothing was watched have left no event.
    async fn follow(&self, mut events: mpsc::Receiver<DirEvent>) {
        for path in self.memory.known() {
            if let Ok(None) = self.ports.host.disk.kind(&path).await {
                self.queue.add(Key::Socket(self.memory.take(&DirEvent::Removed(path))));
            }
        }
        while let Some(event) = events.recv().await {
            tracing::debug!(?event, "plugin socket");
            self.queue.add(Key::Socket(self.memory.take(&event)));
        }
    }

    fn wake<K: Meta>(&self, object: Option<&K>) {
        if object.is_some_and(|o| o.name() == self.node_name) {
            self.memory.known().into_iter().for_each(|path| self.queue.add(Key::Socket(path)));
        }
    }
}
