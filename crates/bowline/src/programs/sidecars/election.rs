//! One election for the process, and upstream's lease of each controller behind it.
//!
//! The process's own lease says which replica works; the others keep their caches warm. Upstream's leases keep its programs
//! from working beside us while people roll from one to the other: a controller acts only while it holds the lease that
//! upstream's program of the same driver would take. When such a lease is lost, that controller stops at once (each of its
//! effects asks), waits for the lease again, and the others go on. When the process's own is lost, the process ends.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bowline_host::{Host, real};
use bowline_machinery::flags::LeaderElection;
use bowline_machinery::lease::settings::sanitize;
use bowline_machinery::lease::{Ended, Settings, Timing};
use bowline_machinery::{Leadership, Lease, Ports};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::process::show_leadership;

/// The lock of the whole process for one driver.
pub fn lock(driver: &str) -> String {
    format!("bowline-sidecars-{driver}")
}

/// A candidacy and how to end it.
struct Candidacy {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<Ended>,
}

impl Candidacy {
    fn begin(lease: Lease, leadership: Leadership) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(lease.run(stop.clone()));
        Self { leadership, stop, task }
    }

    /// Hands the lease over.
    async fn end(self) {
        self.stop.cancel();
        // It was aborted or panicked: then the lease runs out by itself.
        let _ = self.task.await;
    }
}

/// All leases of the process; clones share them.
#[derive(Clone)]
pub struct Election {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    host: Host,
    /// All but the name of the lease.
    settings: Settings,
    main: Leadership,
    candidacies: Mutex<Candidacies>,
}

struct Candidacies {
    main: Option<Candidacy>,
    /// By the name of the lease.
    controllers: Vec<(String, Candidacy)>,
}

impl Election {
    /// Asks for the process's own lease once the roles have filled their caches.
    pub fn begin(ports: &Ports, election: LeaderElection, namespace: String, driver: &str) -> Result<Self> {
        let LeaderElection { lease_duration, renew_deadline, retry_period, labels, .. } = election;
        let timing = Timing::new(lease_duration, renew_deadline, retry_period).map_err(anyhow::Error::msg)?;
        let machine = real::hostname().context("read the name of this machine")?;
        let identity = sanitize(&format!("{machine}-{}", ports.host.random.uuid()));
        let name = sanitize(&lock(driver));
        let settings = Settings { namespace, name, identity, labels, timing, release_on_exit: true };
        let host = ports.host.clone();
        let (lease, main) = Lease::new(ports.client.clone(), host.clone(), settings.clone());
        show_leadership(&ports.metrics, main.clone());
        let lease = lease.after_roles(ports.starts.clone());
        let candidacy = Candidacy::begin(lease, main.clone());
        let candidacies = Mutex::new(Candidacies { main: Some(candidacy), controllers: Vec::new() });
        Ok(Self { inner: Arc::new(Inner { ports: ports.clone(), host, settings, main, candidacies }) })
    }

    /// The process's own lease.
    pub fn main(&self) -> Leadership {
        self.inner.main.clone()
    }

    /// The candidacy for upstream's lease `lock`: the one that runs, or a new one if it has ended.
    pub fn seat(&self, lock: &str) -> Leadership {
        let Inner { ports, host, settings, main, candidacies } = &*self.inner;
        let name = sanitize(lock);
        let mut candidacies = candidacies.lock().unwrap_or_else(PoisonError::into_inner);
        let known = candidacies.controllers.iter().position(|(known, _)| *known == name);
        if let Some((_, running)) = known.and_then(|at| candidacies.controllers.get(at))
            && !running.leadership.ended()
        {
            return running.leadership.clone();
        }
        let settings = Settings { name: name.clone(), ..settings.clone() };
        let (lease, leadership) = Lease::new(ports.client.clone(), host.clone(), settings);
        show_leadership(&ports.metrics, leadership.clone());
        let candidacy = Candidacy::begin(lease.behind(main.clone()), leadership.clone());
        match known {
            Some(at) => candidacies.controllers[at] = (name, candidacy),
            None => candidacies.controllers.push((name, candidacy)),
        }
        leadership
    }

    /// Hands all leases over, after all work has ended. The process's own is last: the next holder finds the others free.
    pub async fn end(&self) {
        let (main, controllers) = {
            let mut all = self.inner.candidacies.lock().unwrap_or_else(PoisonError::into_inner);
            (all.main.take(), std::mem::take(&mut all.controllers))
        };
        futures::future::join_all(controllers.into_iter().map(|(_, candidacy)| candidacy.end())).await;
        if let Some(main) = main {
            main.end().await;
        }
    }
}
