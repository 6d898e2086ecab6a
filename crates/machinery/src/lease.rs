//! Leader election on Leases: upstream's record, names and timing.
//!
//! A candidate reads the lease, decides (`decide`), and writes with the version it read, so that of two candidates one
//! wins. A leader writes again each retry period. It leads until its renew deadline, counted on its own monotonic clock
//! from when it sent the last write that landed. Others wait for the whole lease duration from when they saw that write, so
//! at no time do two candidates hold the lease, however far apart their clocks are.
//!
//! The deadline counts from the last write, not from the first failed renewal as client-go's does: a leader gives up one
//! retry period sooner than upstream's. In return it tries more often once a renewal has failed.

pub mod decide;
pub mod leadership;
pub mod settings;

use std::time::Duration;

use bowline_api::Lease as Object;
use bowline_host::Host;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::client::line::jitter;
use crate::client::{Client, one_line};
use crate::starts::Starts;
use decide::{Observed, Record, Step, decide, released};
pub use leadership::Leadership;
use leadership::Sent;
pub use settings::{Settings, Timing};

/// client-go spreads candidates: up to this much of a retry period more between two looks.
const SPREAD: f64 = 1.2;
/// A failed renewal is repeated after this part of a retry period.
const RENEW_AGAIN: u32 = 10;
/// The part of the time left that one renewal may take.
const PATIENCE: f64 = 0.6;
/// Roles that cannot fill their caches in this time do not keep the others of their process from leading.
const WARM_UP: Duration = Duration::from_secs(30);

/// How a candidacy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// As asked; the lease was handed over if so configured.
    Stopped,
    /// Another candidate leads, or may soon: upstream's programs exit with 1.
    Lost,
}

/// One try at the lease.
enum Tried {
    /// The write that was sent at this time landed.
    Held(Sent),
    Wait(Duration),
    Lost,
}

/// A candidate for one lease.
pub struct Lease {
    api: Api<Object>,
    host: Host,
    settings: Settings,
    leadership: Leadership,
    /// The lease as last read or written, and when its record was last seen to change.
    known: Option<(Object, Record)>,
    changed: Instant,
    /// The roles whose caches it waits for.
    roles: Option<Starts>,
    /// The lease that must be held first.
    behind: Option<Leadership>,
}

impl Drop for Lease {
    /// A candidacy whose task was aborted or panicked renews no more.
    fn drop(&mut self) {
        self.leadership.end();
    }
}

impl Lease {
    pub fn new(client: Client, host: Host, settings: Settings) -> (Self, Leadership) {
        let leadership = Leadership::new(settings.name.clone(), settings.timing.lease, host.uptime.clone());
        let api = Api::namespaced(client, &settings.namespace);
        let lease = Self {
            api,
            host,
            settings,
            leadership: leadership.clone(),
            known: None,
            changed: Instant::now(),
            roles: None,
            behind: None,
        };
        (lease, leadership)
    }

    /// Asks for the lease only when these roles have filled their caches: of two replicas the one that can work at once is
    /// to lead.
    pub fn after_roles(mut self, roles: Starts) -> Self {
        self.roles = Some(roles);
        self
    }

    /// Asks for the lease only while this process holds the other one. Until then it reads the lease like any candidate, so
    /// that after a leader died it does not begin only then to count how long the record stands.
    pub fn behind(mut self, first: Leadership) -> Self {
        self.behind = Some(first);
        self
    }

    /// Waits for the lease, then renews it until it is lost or `stop` is cancelled. To hand it over safely, cancel `stop`
    /// after all work has ended, not together with it.
    pub async fn run(mut self, stop: CancellationToken) -> Ended {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.lead() => {
                self.leadership.end();
                return Ended::Lost;
            }
        }
        let held = self.leadership.held();
        // No effect may begin once the lease is about to be free.
        self.leadership.end();
        if held && self.settings.release_on_exit {
            self.release().await;
        }
        Ended::Stopped
    }

    async fn lead(&mut self) {
        let lease = self.settings.name.clone();
        if let Some(roles) = &self.roles {
            if timeout(WARM_UP, roles.completed()).await.is_err() {
                tracing::warn!(lease, waited = ?WARM_UP, "not all roles could fill their caches; asking for the lease with those that did");
            }
            // A replica that can do nothing leaves the lease to one that can.
            roles.one_succeeded().await;
        }
        if !self.acquire().await {
            return;
        }
        tracing::info!(lease, identity = self.settings.identity, "leading");
        let why = self.renew().await;
        tracing::error!(lease, identity = self.settings.identity, why, "lost the lease");
    }

    /// False when the write that acquired it took too long to count.
    async fn acquire(&mut self) -> bool {
        let timing = self.settings.timing;
        loop {
            let random = self.host.random.clone();
            let spread = timing.retry + jitter(&*random, timing.retry.mul_f64(SPREAD));
            if let Some(first) = self.behind.clone()
                && !first.held()
            {
                if first.ended() {
                    return false;
                }
                self.look().await;
                let turn = async {
                    if !first.acquired().await {
                        std::future::pending().await
                    }
                };
                let _ = timeout(spread, turn).await;
                continue;
            }
            let pause = match timeout(timing.renew, self.attempt()).await {
                Ok(Ok(Tried::Held(sent))) => return self.leadership.extend(sent, timing.renew),
                // A leader that died is followed when its record ends, not a retry period later.
                Ok(Ok(Tried::Wait(left))) => spread.min(left + jitter(&*random, timing.retry / 4)),
                Ok(Ok(Tried::Lost)) => spread,
                Ok(Err(error)) => {
                    tracing::warn!(
                        lease = self.settings.name,
                        error = one_line(&error),
                        "cannot ask for the lease, trying again"
                    );
                    spread
                }
                Err(_) => {
                    tracing::warn!(
                        lease = self.settings.name,
                        "the API server does not answer about the lease, trying again"
                    );
                    spread
                }
            };
            sleep(pause).await;
        }
    }

    /// Renews on and on; says why it ended.
    async fn renew(&mut self) -> String {
        let timing = self.settings.timing;
        let late = || format!("it was not renewed within {:?}", timing.renew);
        loop {
            // After a write whose answer took long, little is left.
            let left = self.leadership.until().map_or(Duration::ZERO, |until| until - Instant::now());
            sleep(timing.retry.min(left / 2)).await;
            loop {
                let Some(until) = self.leadership.until() else { return late() };
                // One lost answer must not cost the lease: part of the time is for a second try.
                let patience = (until - Instant::now()).mul_f64(PATIENCE);
                let failed = match timeout_at(until, timeout(patience, self.renewal())).await {
                    Ok(Ok(Ok(Tried::Held(sent)))) if self.leadership.extend(sent, timing.renew) => break,
                    Ok(Ok(Ok(Tried::Held(_)))) | Err(_) => return late(),
                    Ok(Ok(Ok(Tried::Lost | Tried::Wait(_)))) => {
                        return "another candidate holds it".to_owned();
                    }
                    Ok(Ok(Err(error))) => one_line(&error),
                    Ok(Err(_)) => "the API server does not answer".to_owned(),
                };
                tracing::warn!(
                    lease = self.settings.name,
                    error = failed,
                    "cannot renew the lease, trying again"
                );
                if timeout_at(until, sleep(timing.retry / RENEW_AGAIN)).await.is_err() {
                    return late();
                }
            }
        }
    }

    /// Writes over what we wrote last, without a look. Only when that fails is the lease read again.
    async fn renewal(&mut self) -> Result<Tried, kube::Error> {
        if self.known.is_some() {
            match self.step().await {
                Ok(Tried::Held(sent)) => return Ok(Tried::Held(sent)),
                Ok(_) => {}
                Err(error) => tracing::debug!(
                    lease = self.settings.name,
                    error = one_line(&error),
                    "reading the lease again"
                ),
            }
        }
        self.leadership.slow_path();
        self.attempt().await
    }

    /// Reads the lease without asking for it. One that cannot be read is read again by the next look.
    async fn look(&mut self) {
        match timeout(self.settings.timing.renew, self.api.get_opt(&self.settings.name)).await {
            Ok(Ok(read)) => self.saw(read),
            Ok(Err(error)) => {
                tracing::debug!(
                    lease = self.settings.name,
                    error = one_line(&error),
                    "cannot read the lease"
                );
            }
            Err(_) => tracing::debug!(lease = self.settings.name, "the API server does not answer"),
        }
    }

    async fn attempt(&mut self) -> Result<Tried, kube::Error> {
        let read = self.api.get_opt(&self.settings.name).await?;
        self.saw(read);
        self.step().await
    }

    /// Decides on what is known and does it.
    async fn step(&mut self) -> Result<Tried, kube::Error> {
        let observed = Observed {
            identity: &self.settings.identity,
            seconds: i32::try_from(self.settings.timing.lease.as_secs()).unwrap_or(i32::MAX),
            record: self.known.as_ref().map(|(_, record)| record),
            unchanged: self.changed.elapsed(),
            leading: self.leadership.until().is_some(),
        };
        match decide(&observed, self.host.clock.now()) {
            Step::Create(record) | Step::Update(record) => {
                let sent = Sent::now(&*self.host.uptime);
                self.write(&record).await?;
                Ok(Tried::Held(sent))
            }
            Step::Wait(left) => Ok(Tried::Wait(left)),
            Step::Lost => Ok(Tried::Lost),
        }
    }

    /// One write, guarded by the version that was read. A lost answer shows in the next read.
    async fn write(&mut self, record: &Record) -> Result<(), kube::Error> {
        let mut object = self.known.as_ref().map(|(object, _)| object.clone()).unwrap_or_default();
        object.metadata.name = Some(self.settings.name.clone());
        object.metadata.namespace = Some(self.settings.namespace.clone());
        if !self.settings.labels.is_empty() {
            object.metadata.labels.get_or_insert_default().extend(self.settings.labels.clone());
        }
        fill(object.spec.get_or_insert_default(), record);
        self.host.failpoints.hit("lease.write.before");
        let parameters = PostParams::default();
        let answer = match &self.known {
            None => self.api.create(&parameters, &object).await,
            Some(_) => self.api.replace(&self.settings.name, &parameters, &object).await,
        };
        self.host.failpoints.hit("lease.write.after");
        self.saw(Some(answer?));
        Ok(())
    }

    fn saw(&mut self, object: Option<Object>) {
        let record = object.as_ref().map(record_of);
        if record.as_ref() != self.known.as_ref().map(|(_, record)| record) {
            self.changed = Instant::now();
        }
        self.known = object.zip(record);
    }

    /// Lets the next candidate begin at once. Bounded by what is left of the lease: after that it is free anyway.
    async fn release(&mut self) {
        match timeout(self.settings.timing.renew, self.hand_over()).await {
            Ok(Ok(())) => tracing::info!(lease = self.settings.name, "handed the lease over"),
            Ok(Err(error)) => {
                tracing::warn!(
                    lease = self.settings.name,
                    error = one_line(&error),
                    "cannot hand the lease over; it ends by itself"
                );
            }
            Err(_) => {
                tracing::warn!(
                    lease = self.settings.name,
                    "the API server does not answer; the lease ends by itself"
                );
            }
        }
    }
}

impl Lease {
    /// The last renewal may have landed without an answer, or people may have edited the lease: what is known is then too
    /// old to be written over. It is read once more, and left alone if another candidate holds it.
    async fn hand_over(&mut self) -> Result<(), kube::Error> {
        match self.write_released().await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let read = self.api.get_opt(&self.settings.name).await?;
                self.saw(read);
                self.write_released().await
            }
            done => done,
        }
    }

    async fn write_released(&mut self) -> Result<(), kube::Error> {
        match &self.known {
            Some((_, record)) if record.holder == self.settings.identity => {
                let record = released(record, self.host.clock.now());
                self.write(&record).await
            }
            _ => Ok(()),
        }
    }
}

fn record_of(lease: &Object) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        seconds: spec.lease_duration_seconds.unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
    }
}

fn fill(spec: &mut LeaseSpec, record: &Record) {
    let time = |time: Option<Timestamp>| time.map(MicroTime);
    spec.holder_identity = Some(record.holder.clone());
    spec.lease_duration_seconds = Some(record.seconds);
    spec.lease_transitions = Some(record.transitions);
    spec.acquire_time = time(record.acquired);
    spec.renew_time = time(record.renewed);
}

#[cfg(test)]
mod tests;
