//! What this process knows about the containers and directories of pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_api::{Meta, Pod};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Probe;

use super::model::{Attempt, Exit, Hook, HookState, Outcome, PodVolumes, ProbeKind, SIGKILL, State};
use crate::kubelet::Reported;

/// A run of this length ends a series of crashes.
const CALM: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Default)]
pub struct PodMemory {
    pub attempts: BTreeMap<String, Vec<Attempt>>,
    pub crashes: BTreeMap<String, u32>,
    pub directory: bool,
    /// By the machine's uptime, as all times here.
    pub problem_since: Option<Duration>,
    pub known_since: Option<Duration>,
    pub deleting_since: Option<Duration>,
    /// Since when the pod was seen to be active, and for how long it had been by then.
    pub active: Option<(Duration, Duration)>,
    pub told: Option<Reported>,
    /// What is waited for, and since when; what the pod was told of it.
    pub waits: Option<(String, Duration, Option<Reported>)>,
}

/// Clones share it.
#[derive(Clone, Default)]
pub struct Runtime {
    pods: Arc<Mutex<BTreeMap<String, PodMemory>>>,
}

impl Runtime {
    pub fn get(&self, uid: &str) -> Option<PodMemory> {
        self.pods().get(uid).cloned()
    }

    pub fn uids(&self) -> Vec<String> {
        self.pods().keys().cloned().collect()
    }

    /// Changes what is known about a pod; one that was not known is from now on, and may have a directory.
    pub fn update<T>(&self, uid: &str, change: impl FnOnce(&mut PodMemory) -> T) -> T {
        let mut pods = self.pods();
        change(pods.entry(uid.to_owned()).or_insert_with(PodMemory::unknown))
    }

    pub fn forget(&self, uid: &str) {
        self.pods().remove(uid);
    }

    /// Takes in a run, new or found. How long ago one was started that an earlier process left, only the wall clock
    /// says; it is asked once.
    pub fn started(&self, uid: &str, container: &str, number: u32, state: State, now: (Duration, Timestamp)) {
        let (now, wall) = now;
        let (State::Running { started_at, .. } | State::Exited { started_at, .. }) = &state;
        let mut attempt = Attempt::new(number, state.clone(), now.saturating_sub(between(*started_at, wall)));
        self.update(uid, |pod| {
            if let State::Exited { started_at, exit } = &state {
                attempt.ended_at = Some(now);
                pod.count(container, between(*started_at, exit.finished_at));
            }
            let attempts = pod.attempts.entry(container.to_owned()).or_default();
            attempts.retain(|a| a.number != number);
            attempts.push(attempt);
            attempts.sort_by_key(|a| a.number);
        });
    }

    pub fn exited(&self, uid: &str, container: &str, number: u32, exit: Exit, now: Duration) {
        self.update(uid, |pod| {
            let attempts = pod.attempts.entry(container.to_owned()).or_default();
            let Some(attempt) = attempts.iter_mut().find(|a| a.number == number) else { return };
            let State::Running { started_at, .. } = attempt.state else { return };
            attempt.state = State::Exited { started_at, exit };
            attempt.ended_at = Some(now);
            let ran = now.saturating_sub(attempt.since);
            pod.count(container, ran);
        });
    }

    pub fn evicted(&self, uid: &str, container: &str, number: u32) {
        self.change(uid, container, number, |attempt| attempt.evicted = true);
    }

    pub fn of_earlier_boot(&self, uid: &str, container: &str, number: u32) {
        self.change(uid, container, number, |attempt| attempt.earlier_boot = true);
    }

    pub fn signalled(&self, uid: &str, container: &str, number: u32, signal: i32, now: Duration) {
        self.change(uid, container, number, |attempt| {
            attempt.term_at.get_or_insert(now);
            attempt.stopping_since.get_or_insert(now);
            attempt.killed |= signal == SIGKILL;
        });
    }

    pub fn asking(&self, uid: &str, container: &str, number: u32, kind: ProbeKind) {
        self.change(uid, container, number, |attempt| {
            attempt.probes.entry(kind).or_default().in_flight = true;
        });
    }

    pub fn answered(
        &self,
        uid: &str,
        container: &str,
        number: u32,
        (kind, probe): (ProbeKind, &Probe),
        (outcome, asked): (&Outcome, Duration),
    ) {
        self.change(uid, container, number, |attempt| {
            attempt.probes.entry(kind).or_default().answered(probe, outcome, asked);
        });
    }

    pub fn hook(&self, uid: &str, container: &str, number: u32, hook: Hook, state: HookState, now: Duration) {
        self.change(uid, container, number, |attempt| match hook {
            Hook::PostStart => attempt.post_start = state,
            Hook::PreStop => {
                attempt.pre_stop = state;
                attempt.stopping_since.get_or_insert(now);
            }
        });
    }

    /// Changes a run that is known. An answer about one that is gone comes too late.
    fn change(&self, uid: &str, container: &str, number: u32, change: impl FnOnce(&mut Attempt)) {
        let mut pods = self.pods();
        let mut attempts =
            pods.get_mut(uid).and_then(|pod| pod.attempts.get_mut(container)).into_iter().flatten();
        if let Some(attempt) = attempts.find(|attempt| attempt.number == number) {
            change(attempt);
        }
    }

    pub fn wrote_last(&self, uid: &str, container: &str, number: u32, text: String) {
        self.change(uid, container, number, |attempt| attempt.last_lines = Some(text));
    }

    pub fn logs_removed(&self, uid: &str, container: &str, before: u32) {
        self.change(uid, container, before, |attempt| attempt.logs_removed = true);
    }

    pub fn removed(&self, uid: &str, container: &str, number: u32) {
        self.update(uid, |pod| {
            if let Some(attempts) = pod.attempts.get_mut(container) {
                attempts.retain(|a| a.number != number);
                if attempts.is_empty() {
                    pod.attempts.remove(container);
                }
            }
        });
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, PodMemory>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PodMemory {
    /// A pod that was not known: it may have a directory.
    pub fn unknown() -> Self {
        Self { directory: true, ..Self::default() }
    }

    /// Takes in what the API says of the pod, and what is known of its volumes. How long it had been active before this
    /// process saw it, only the wall clock says; it is asked once.
    pub fn saw(&mut self, pod: Option<&Pod>, volumes: &PodVolumes, now: Duration, wall: Timestamp) {
        let problem = matches!(volumes, PodVolumes::Waiting { problems, .. } if !problems.is_empty());
        self.problem_since = problem.then(|| self.problem_since.unwrap_or(now));
        self.known_since.get_or_insert(now);
        if pod.is_some_and(Meta::deleting) {
            self.deleting_since.get_or_insert(now);
        }
        let started = pod.and_then(|pod| pod.status.as_ref()?.start_time.as_ref());
        if let Some(started) = started {
            self.active.get_or_insert((now, between(started.0, wall)));
        }
    }

    fn count(&mut self, container: &str, ran: Duration) {
        let known = self.attempts.get(container).and_then(|a| a.last()).map_or(0, |a| a.number);
        let crashes = self.crashes.entry(container.to_owned()).or_insert(known);
        *crashes = if ran >= CALM { 1 } else { *crashes + 1 };
    }
}

/// Nothing when the end lies before the beginning: the clock was set meanwhile.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// Pod UID, container and attempt of a container's id.
pub fn parts(id: &str) -> Option<(&str, &str, u32)> {
    let mut parts = id.split('/');
    let (uid, container, number) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && !uid.is_empty() && !container.is_empty();
    number.parse().ok().filter(|_| whole).map(|number| (uid, container, number))
}
