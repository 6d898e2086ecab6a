//! When a container is probed, and what the answers mean. Pure.

use std::time::Duration;

use bowline_api::{Container, Meta, Pod};
use k8s_openapi::api::core::v1::{ContainerStatus, Probe};

use super::model::{Attempt, HookState, Observed, Outcome, State};
use super::status;

/// What upstream's defaults write into a probe without a value.
const PERIOD: i32 = 10;
const TIMEOUT: i32 = 1;
const SUCCESSES: i32 = 1;
const FAILURES: i32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// As messages have it; events begin with a capital.
    pub fn word(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Readiness => "readiness",
            Self::Liveness => "liveness",
        }
    }

    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// What is known of one probe of one run of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeState {
    pub in_flight: bool,
    /// `None`: it was never asked.
    pub next_at: Option<Duration>,
    last: Option<bool>,
    in_a_row: u32,
    /// The answer that counts: it was given often enough.
    pub settled: Option<bool>,
}

impl ProbeState {
    /// Takes in an answer to the question that was asked at `asked`. No answer at all changes nothing but the time.
    pub fn answered(&mut self, probe: &Probe, outcome: &Outcome, asked: Duration) {
        self.in_flight = false;
        self.next_at = Some(asked.saturating_add(seconds(probe.period_seconds, PERIOD)));
        let good = match outcome {
            Outcome::Success => true,
            Outcome::Failure(_) => false,
            Outcome::Unknown(_) => return,
        };
        self.in_a_row = if self.last == Some(good) { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some(good);
        let (given, default) =
            if good { (probe.success_threshold, SUCCESSES) } else { (probe.failure_threshold, FAILURES) };
        if u64::from(self.in_a_row) >= seconds(given, default).as_secs() {
            self.settled = Some(good);
        }
    }
}

pub fn timeout(probe: &Probe) -> Duration {
    seconds(probe.timeout_seconds, TIMEOUT)
}

/// Positive, or the default.
fn seconds(given: Option<i32>, default: i32) -> Duration {
    let given = given.filter(|value| *value > 0).unwrap_or(default);
    Duration::from_secs(u64::from(given.unsigned_abs()))
}

/// The probe of a run that is to be asked now, or when the next one is.
pub fn next(
    seen: &Observed,
    pod: &Pod,
    container: &Container,
    attempt: &Attempt,
) -> Option<Result<ProbeKind, Duration>> {
    let State::Running { .. } = attempt.state else { return None };
    // A run that is being ended stays condemned, whatever it would answer while its preStop hook runs. Whether it may be
    // sent work is asked until it has ended if the whole pod ends, as upstream does.
    let stopping = attempt.stopping_since.or(attempt.term_at).is_some();
    let ending = pod.deleting();
    if (stopping && !ending) || !post_start_done(seen, pod, container, attempt) {
        return None;
    }
    let started = started(seen, pod, container, attempt);
    let mut soonest: Option<Duration> = None;
    for kind in ProbeKind::ALL.into_iter().filter(|kind| !ending || *kind == ProbeKind::Readiness) {
        let Some(probe) = kind.of(container).filter(|_| (kind == ProbeKind::Startup) != started) else {
            continue;
        };
        let state = attempt.probes.get(&kind).copied().unwrap_or_default();
        if state.in_flight {
            continue;
        }
        let delay = probe.initial_delay_seconds.and_then(|delay| u64::try_from(delay).ok()).unwrap_or(0);
        let at = state.next_at.unwrap_or_else(|| attempt.since.saturating_add(Duration::from_secs(delay)));
        if at <= seen.now {
            return Some(Ok(kind));
        }
        soonest = Some(soonest.map_or(at, |known| known.min(at)));
    }
    soonest.map(Err)
}

/// What the API shows of exactly this run: what an earlier process found out about it.
fn shown<'a>(seen: &Observed, pod: &'a Pod, name: &str, number: u32) -> Option<&'a ContainerStatus> {
    let id = status::container_id(seen, name, number);
    status::old(pod, name, false).filter(|status| status.container_id.as_deref() == Some(&id))
}

pub fn post_start_done(seen: &Observed, pod: &Pod, container: &Container, attempt: &Attempt) -> bool {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
    hook.is_none() || attempt.post_start == HookState::Done || was_started(seen, pod, container, attempt)
}

fn was_started(seen: &Observed, pod: &Pod, container: &Container, attempt: &Attempt) -> bool {
    shown(seen, pod, &container.name, attempt.number).is_some_and(|status| status.started == Some(true))
}

/// Whether a run is past its postStart hook and its startup probe.
pub fn started(seen: &Observed, pod: &Pod, container: &Container, attempt: &Attempt) -> bool {
    let settled = || attempt.probes.get(&ProbeKind::Startup).and_then(|state| state.settled);
    attempt.running()
        && post_start_done(seen, pod, container, attempt)
        && (container.startup_probe.is_none()
            || settled().unwrap_or_else(|| was_started(seen, pod, container, attempt)))
}

/// Whether a run may be sent work. Until it is asked for the first time, what an earlier process found counts.
pub fn ready(seen: &Observed, pod: &Pod, container: &Container, attempt: &Attempt) -> bool {
    let settled = || attempt.probes.get(&ProbeKind::Readiness).and_then(|state| state.settled);
    let was = || shown(seen, pod, &container.name, attempt.number).is_some_and(|status| status.ready);
    started(seen, pod, container, attempt)
        && (container.readiness_probe.is_none() || settled().unwrap_or_else(was))
}

/// Why a running container is to be ended and started again, in upstream's words.
pub fn condemned(pod: &Pod, container: &Container, attempt: &Attempt) -> Option<String> {
    let failed = |kind: &ProbeKind| {
        let state = attempt.probes.get(kind);
        kind.of(container).is_some() && state.is_some_and(|state| state.settled == Some(false))
    };
    let name = &container.name;
    let why = match [ProbeKind::Liveness, ProbeKind::Startup].iter().find(|kind| failed(kind)) {
        Some(kind) => format!("Container {name} failed {} probe", kind.word()),
        None if attempt.post_start == HookState::Failed => return Some("FailedPostStartHook".into()),
        None => return None,
    };
    let never = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() == Some("Never"));
    Some(if never { why } else { format!("{why}, will be restarted") })
}

/// How long a container that failed a probe gets to end.
pub fn grace(container: &Container, attempt: &Attempt) -> Option<Duration> {
    let kinds = [ProbeKind::Liveness, ProbeKind::Startup];
    let failed = kinds
        .iter()
        .find(|kind| attempt.probes.get(kind).is_some_and(|state| state.settled == Some(false)))?;
    let given = failed.of(container)?.termination_grace_period_seconds?;
    u64::try_from(given).ok().map(Duration::from_secs)
}
