//! Which container starts next, and when.

use std::time::Duration;

use bowline_api::{Container, Meta, Pod, pod};

use crate::kubelet::pods::model::{Action, Observed, PodVolumes, StartSpec, State, Why};
use crate::kubelet::pods::probes;
use crate::kubelet::pods::spec::{self, Missing, Problem};
use crate::kubelet::pods::status;

/// Delay before the second restart in a row; doubled each time.
const BACK_OFF_START: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// `None` when every container runs or has ended for good.
pub(super) fn next_start(seen: &Observed, pod: &Pod) -> Option<Result<Action, Why>> {
    let refused = |container| spec::refused(pod, container, seen.config.allow_privileged);
    if let Some(problem) = pod::containers(pod).find_map(refused) {
        return Some(Err(Why::Refused(problem)));
    }
    if let PodVolumes::Waiting { unmounted, .. } = &seen.volumes {
        return Some(Err(Why::Volumes(unmounted.clone())));
    }
    for container in spec::init_containers(pod) {
        match due(seen, pod, container, true) {
            Due::Ended(0) => {}
            Due::Now(number) => return Some(start(seen, pod, container, number)),
            Due::At(at) => return Some(Err(Why::BackOff { container: container.name.clone(), at })),
            Due::Running => return Some(Err(Why::Initializing(container.name.clone()))),
            // A failed init container under `Never`: the status says so next, and the pod is over.
            Due::Ended(_) => return None,
        }
    }
    let mut wait: Option<(Duration, &str)> = None;
    let mut stuck = None;
    for container in spec::app_containers(pod) {
        match due(seen, pod, container, false) {
            // What one container lacks does not keep the others from starting.
            Due::Now(number) => match start(seen, pod, container, number) {
                Ok(action) => return Some(Ok(action)),
                Err(why) => drop(stuck.get_or_insert(why)),
            },
            Due::At(at) => wait = Some(wait.map_or((at, &container.name), |w| w.min((at, &container.name)))),
            Due::Running if !hook_is_over(seen, pod, container) => {
                return Some(Err(Why::PostStart(container.name.clone())));
            }
            Due::Running | Due::Ended(_) => {}
        }
    }
    let back_off = wait.map(|(at, container)| Why::BackOff { container: container.to_owned(), at });
    match (stuck, back_off) {
        (Some(why), Some(back_off)) => {
            let until = back_off.until().unwrap_or(seen.now);
            Some(Err(Why::Until(Box::new(why), until)))
        }
        (why, back_off) => why.or(back_off).map(Err),
    }
}

/// As upstream does it: the next container waits for the postStart hook of the one before it.
fn hook_is_over(seen: &Observed, pod: &Pod, container: &Container) -> bool {
    let attempt = seen.latest(&container.name);
    attempt.is_none_or(|attempt| probes::post_start_done(seen, pod, container, attempt))
}

fn start(seen: &Observed, pod: &Pod, container: &Container, number: u32) -> Result<Action, Why> {
    let PodVolumes::Ready(volumes) = &seen.volumes else { return Err(Why::Volumes(Vec::new())) };
    match spec::build(seen, pod, container, number, volumes) {
        Ok(spec) => {
            let container = container.name.clone();
            Ok(Action::Start { container, number, spec: StartSpec(Box::new(spec)) })
        }
        Err(Missing::Looking) => Err(Why::Looking),
        Err(Missing::Problem(problem)) => Err(Why::Refused(problem)),
    }
}

/// What keeps a container from starting that would start otherwise.
pub fn blocked(seen: &Observed, pod: &Pod, container: &Container, init: bool) -> Option<Problem> {
    if let Some(problem) = spec::refused(pod, container, seen.config.allow_privileged) {
        return Some(problem);
    }
    let Due::Now(number) = due(seen, pod, container, init) else { return None };
    match start(seen, pod, container, number) {
        Err(Why::Refused(problem)) => Some(problem),
        _ => None,
    }
}

/// How the last run of a container stands. Where no record is left, the API's word on its end counts; not for an init
/// container, which runs again when its pod is started anew on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    NotStarted,
    Running,
    Ended { code: i32, at: Duration },
}

pub fn run_of(seen: &Observed, pod: &Pod, name: &str, init: bool) -> Run {
    let latest = seen.latest(name);
    match latest.map(|attempt| (&attempt.state, attempt.ended_at)) {
        Some((State::Running { .. }, _)) => Run::Running,
        Some((State::Exited { exit, .. }, _)) if init && exit.code == 0 && runs_again(seen, pod, name) => {
            Run::NotStarted
        }
        Some((State::Exited { exit, .. }, at)) => Run::Ended { code: exit.code, at: at.unwrap_or(seen.now) },
        None if init && !pod.deleting() => Run::NotStarted,
        None => {
            let ended = status::old(pod, name, init).and_then(|s| s.state.as_ref()?.terminated.as_ref());
            ended.map_or(Run::NotStarted, |t| Run::Ended { code: t.exit_code, at: seen.known_since })
        }
    }
}

/// As upstream does it: a pod that is started once more after the machine was begins with its init containers. What they
/// prepared may have been in memory. Not beside a container that has run since.
fn runs_again(seen: &Observed, pod: &Pod, init: &str) -> bool {
    let earlier = |name: &str| seen.latest(name).is_none_or(|attempt| attempt.earlier_boot);
    let starts = |container: &Container| !matches!(due(seen, pod, container, false), Due::Ended(_));
    let apps = spec::app_containers(pod);
    !pod.deleting()
        && earlier(init)
        && apps.iter().all(|container| earlier(&container.name))
        && apps.iter().any(starts)
}

enum Due {
    Now(u32),
    At(Duration),
    Running,
    /// For good, with this code.
    Ended(i32),
}

fn due(seen: &Observed, pod: &Pod, container: &Container, init: bool) -> Due {
    let (code, ended) = match run_of(seen, pod, &container.name, init) {
        Run::Running => return Due::Running,
        Run::NotStarted => return Due::Now(next_number(seen, pod, &container.name, init)),
        Run::Ended { code, at } => (code, at),
    };
    if !restarts(pod, code, init) {
        return Due::Ended(code);
    }
    let number = next_number(seen, pod, &container.name, init);
    let at = ended.saturating_add(delay(seen, &container.name, number));
    if at <= seen.now { Due::Now(number) } else { Due::At(at) }
}

fn restarts(pod: &Pod, code: i32, init: bool) -> bool {
    let policy = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()).unwrap_or("Always");
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => !init || code != 0,
    }
}

/// One more than whatever exists of it, here or in the API: an attempt is never made twice (NODE-3).
fn next_number(seen: &Observed, pod: &Pod, name: &str, init: bool) -> u32 {
    let recorded = seen.latest(name).map(|attempt| attempt.number + 1);
    let told = status::old(pod, name, init).filter(|s| s.container_id.is_some()).map(|s| s.restart_count + 1);
    let told = told.and_then(|n| u32::try_from(n).ok());
    recorded.max(told).unwrap_or(0)
}

/// The first restart is free; then 10 s, doubled up to 5 min.
fn delay(seen: &Observed, name: &str, number: u32) -> Duration {
    let crashes = seen.crashes.get(name).copied().unwrap_or(number);
    match crashes.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => BACK_OFF_START.saturating_mul(1 << doublings.min(10)).min(BACK_OFF_MAX),
    }
}

/// What the waiting state of a container says while its restart is put off.
pub fn backing_off(seen: &Observed, pod: &Pod, container: &Container, init: bool) -> Option<String> {
    if pod.deleting() || !matches!(due(seen, pod, container, init), Due::At(_)) {
        return None;
    }
    let name = &container.name;
    let delay = delay(seen, name, next_number(seen, pod, name, init)).as_secs();
    let (minutes, seconds) = (delay / 60, delay % 60);
    let delay = if minutes > 0 { format!("{minutes}m{seconds}s") } else { format!("{seconds}s") };
    Some(format!("back-off {delay} restarting failed container={name} pod={}", spec::pod_text(pod)))
}
