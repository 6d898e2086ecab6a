//! The role: which change concerns whose statistics.

use std::time::Duration;

use async_trait::async_trait;
use bowline_api::{Meta, Pod};
use bowline_machinery::queue::Backoff;
use bowline_machinery::{
    Cache, Context, EffectError, Effects, Pool, Ports, Queue, Recorder, Role, RunError, Step, Watches,
};

use super::decide::decide;
use super::memory::Stats;
use super::model::{Action, Observed, PERIOD, Why};
use crate::indexes::{self, PODS_BY_UID};
use crate::kubelet::pluginmanager::Drivers;
use crate::kubelet::volumemanager::Mounts;

/// What it shares with the other parts of the kubelet.
pub struct Settings {
    pub drivers: Drivers,
    pub mounts: Mounts,
    pub stats: Stats,
    /// The gate CSIVolumeHealth.
    pub health: bool,
}

/// Asks drivers how full their volumes are.
pub struct Calculator {
    pub(super) ports: Ports,
    pub(super) effects: Effects,
    pub(super) recorder: Recorder,
    pub(super) pods: Cache<Pod>,
    pub(super) drivers: Drivers,
    pub(super) mounts: Mounts,
    pub(super) stats: Stats,
    pub(super) health: bool,
    queue: Queue<String>,
}

#[async_trait]
impl Role for Calculator {
    const NAME: &'static str = "volumestats";
    const COMPONENT: &'static str = "kubelet";
    /// Questions to one driver at the same time.
    const WORKERS: usize = 4;
    type Settings = Settings;
    /// `<pod UID>/<name of the volume in the pod>`
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    async fn start(context: Context<String>, settings: Settings) -> Result<Self, RunError> {
        let Context { ports, effects, recorder, queue } = context;
        let Settings { drivers, mounts, stats, health } = settings;
        let pods = ports.informers.of::<Pod>();
        indexes::pods_by_uid(&pods);
        let shown = stats.clone();
        ports.metrics.on_scrape(move |metrics| shown.sample(metrics));
        Ok(Self { ports, effects, recorder, pods, drivers, mounts, stats, health, queue })
    }
    fn watch(&self, watches: &mut Watches<Self>) {
        watches.on(&self.pods, |role, change, _| {
            change.sides().for_each(|pod| role.wake(pod.uid()));
        });
        let role = watches.role();
        self.mounts.on_change(move |uid| role.upgrade().iter().for_each(|role| role.wake(uid)));
        let role = watches.role();
        self.drivers.on_change(move |_| {
            role.upgrade()
                .iter()
                .for_each(|role| role.stats.keys().into_iter().for_each(|key| role.queue.add(key)));
        });
    }
    async fn prepare(&self, key: &String) -> Result<(), EffectError> {
        if self.mounted(key).is_some() {
            let first = self.ports.host.random.next_u64() % (PERIOD.as_millis() as u64);
            self.stats.expect(key, self.ports.host.uptime.uptime() + Duration::from_millis(first));
        }
        Ok(())
    }
    async fn observe(&self, key: &String) -> Result<Option<Observed>, EffectError> {
        Ok(self.stats.due(key).map(|_| self.see(key)))
    }
    fn decide(seen: &Observed) -> Step<Action, Why> {
        decide(seen)
    }
    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        self.perform(action, seen).await
    }
    fn look_again(&self, key: &String) -> Option<Duration> {
        let due = self.stats.due(key)?.saturating_sub(self.ports.host.uptime.uptime());
        // One whose driver is away or unable is due in the past: it is woken when that changes.
        Some(if due.is_zero() { PERIOD } else { due })
    }
    /// A driver that does not answer holds up none of the others.
    fn pool(&self, key: &String) -> Pool {
        let driver = self.see(key).mounted.map(|mounted| mounted.driver);
        Pool::new(driver.unwrap_or_default(), Self::WORKERS)
    }
    fn backoff(&self) -> Backoff {
        Backoff::VOLUME
    }
}

impl Calculator {
    fn wake(&self, uid: &str) {
        self.stats.of_pod(uid).into_iter().for_each(|key| self.queue.add(key));
        for pod in self.pods.indexed(PODS_BY_UID, uid) {
            for mounted in self.mounts.mounted_volumes(&pod) {
                self.queue.add(format!("{uid}/{}", mounted.volume));
            }
        }
    }
}
