//! What to do next about one pod. Reading this file is reading the behaviour.

use std::time::Duration;

use bowline_api::{Container, Meta, Pod, pod};
use jiff::Timestamp;

use super::world::{Action, Attempt, Observed, PodVolumes, SIGKILL, SIGTERM, State, Step, Why};
use super::{spec, status};

/// Delay before the second restart in a row; doubled each time.
const BACK_OFF_START: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// What the containers of a pod that is no longer in the API get to end by themselves.
const GONE_GRACE: Duration = Duration::from_secs(1);
/// A volume that cannot be worked out for this long is worth an event: before, the watches may just be apart.
const PROBLEM_PATIENCE: Duration = Duration::from_secs(10);

pub fn decide(seen: &Observed) -> Step {
    let Some(pod) = &seen.pod else { return gone(seen) };
    if pod.deleting() {
        return ending(seen, pod);
    }
    if seen.evicting {
        return evicted(seen);
    }
    match pod::phase(pod) {
        "Succeeded" | "Failed" => finished(seen),
        _ => alive(seen, pod),
    }
}

/// Entered first, then the volumes, then the containers; the status tells of each of these.
fn alive(seen: &Observed, pod: &Pod) -> Step {
    if !seen.inside {
        return Step::Do(Action::Enter);
    }
    if let Some(action) = dismissed(seen) {
        return Step::Do(action);
    }
    // What an earlier process began to end: only an end that is certainly ours is not taken for the workload's.
    if let Some(step) = stop(seen, |attempt| attempt.evicted, |attempt| drain_end(seen, attempt)) {
        return step;
    }
    let next = next_start(seen, pod);
    if let Some(Ok(action)) = next {
        return Step::Do(action);
    }
    if let Some(patch) = status::changed(seen, pod) {
        return Step::Do(Action::PatchStatus(patch));
    }
    // The end of an earlier run is in the status now; its record has served. What it wrote stays, because
    // `kubectl logs --previous` shows it; what runs before it wrote does not.
    if let Some((container, attempt)) = ended(seen, |attempts| &attempts[..attempts.len() - 1]) {
        let (container, number) = (container.to_owned(), attempt.number);
        return Step::Do(match attempt.logs_removed {
            false => Action::RemoveLogs { container, before: number },
            true => Action::Remove { container, number },
        });
    }
    match (volume_problem(seen), next) {
        (Some(step), _) => step,
        (None, Some(Err(why))) => Step::Wait(why),
        (None, _) => Step::Done,
    }
}

/// `None` when every container runs or has ended for good.
fn next_start(seen: &Observed, pod: &Pod) -> Option<Result<Action, Why>> {
    if let Some(problem) = pod::containers(pod).find_map(|c| spec::problem(pod, c)) {
        return Some(Err(Why::Unsupported(problem.message)));
    }
    let volumes = match &seen.volumes {
        PodVolumes::Ready(volumes) => volumes,
        PodVolumes::Waiting { unmounted, .. } => return Some(Err(Why::Volumes(unmounted.clone()))),
    };
    let start = |container: &Container, number: u32| match spec::build(seen, pod, container, number, volumes)
    {
        Ok(spec) => {
            let container = container.name.clone();
            Ok(Action::Start { container, number, spec: Box::new(spec) })
        }
        Err(problem) => Err(Why::Unsupported(problem.message)),
    };
    for container in spec::init_containers(pod) {
        match due(seen, pod, container, true) {
            Due::Ended(0) => {}
            Due::Now(number) => return Some(start(container, number)),
            Due::At(at) => return Some(Err(Why::BackOff { container: container.name.clone(), at })),
            Due::Running => return Some(Err(Why::Initializing(container.name.clone()))),
            // A failed init container under `Never`: the status says so next, and the pod is over.
            Due::Ended(_) => return None,
        }
    }
    let mut wait: Option<(Timestamp, &str)> = None;
    for container in spec::app_containers(pod) {
        match due(seen, pod, container, false) {
            Due::Now(number) => return Some(start(container, number)),
            Due::At(at) => wait = Some(wait.map_or((at, &container.name), |w| w.min((at, &container.name)))),
            Due::Running | Due::Ended(_) => {}
        }
    }
    wait.map(|(at, container)| Err(Why::BackOff { container: container.to_owned(), at }))
}

/// How the last run of a container stands. Where no record is left, the API's word on its end counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    NotStarted,
    Running,
    Ended { code: i32, at: Timestamp },
}

pub fn run_of(seen: &Observed, pod: &Pod, name: &str, init: bool) -> Run {
    match seen.latest(name).map(|attempt| &attempt.state) {
        Some(State::Running { .. }) => Run::Running,
        Some(State::Exited { exit, .. }) => Run::Ended { code: exit.code, at: exit.finished_at },
        None => {
            let ended = status::old(pod, name, init).and_then(|s| s.state.as_ref()?.terminated.as_ref());
            let at = ended.and_then(|t| t.finished_at.as_ref()).map_or(seen.now, |t| t.0);
            ended.map_or(Run::NotStarted, |t| Run::Ended { code: t.exit_code, at })
        }
    }
}

enum Due {
    Now(u32),
    At(Timestamp),
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
    let at = ended.checked_add(delay(seen, &container.name, number)).unwrap_or(ended);
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
    Some(format!(
        "back-off {delay} restarting failed container={name} pod={}_{}({})",
        pod.name(),
        pod.namespace(),
        pod.uid()
    ))
}

fn volume_problem(seen: &Observed) -> Option<Step> {
    let PodVolumes::Waiting { unmounted, problems } = &seen.volumes else { return None };
    let (since, first) = (seen.problem_since?, problems.first()?);
    let failed: Vec<&str> = problems.iter().map(|(name, _)| name.as_str()).collect();
    let mut all: Vec<&str> = unmounted.iter().map(String::as_str).chain(failed.iter().copied()).collect();
    all.sort_unstable();
    let text = format!(
        "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[{}]: {}",
        all.join(" "),
        failed.join(" "),
        first.1
    );
    let patience = since.checked_add(PROBLEM_PATIENCE).unwrap_or(since);
    Some(match seen.told.as_ref() {
        _ if seen.now < patience => Step::Wait(Why::VolumeProblem(patience)),
        Some(told) if *told == text => Step::Wait(Why::Told(text)),
        _ => Step::Do(Action::Report(text)),
    })
}

/// Over, but still in the API: containers that somebody else's verdict left running end, then its volumes go.
fn finished(seen: &Observed) -> Step {
    let grace = |attempt: &Attempt| grace_from_term(attempt, seen.now, GONE_GRACE);
    if let Some(step) = stop(seen, |_| true, grace) {
        return step;
    }
    if seen.inside { Step::Do(Action::Leave) } else { Step::Done }
}

/// The Pod object outlives its containers and its mounts: nobody may believe the volume free before it is.
fn ending(seen: &Observed, pod: &Pod) -> Step {
    let end = pod.meta().deletion_timestamp.as_ref().map_or(seen.now, |t| t.0);
    if let Some(step) = stop(seen, |_| true, |_| end) {
        return step;
    }
    if seen.inside {
        let patch = status::changed(seen, pod);
        return Step::Do(patch.map_or(Action::Leave, Action::PatchStatus));
    }
    if let Some(step) = take_away(seen) {
        return step;
    }
    // With grace 0 the API has already let go: what keeps the object is somebody's finalizer.
    let released = pod.meta().deletion_grace_period_seconds == Some(0);
    if released { Step::Done } else { Step::Do(Action::Delete) }
}

fn gone(seen: &Observed) -> Step {
    let grace = |attempt: &Attempt| grace_from_term(attempt, seen.now, GONE_GRACE);
    if let Some(step) = stop(seen, |_| true, grace) {
        return step;
    }
    if seen.inside {
        return Step::Do(Action::Leave);
    }
    take_away(seen).unwrap_or(Step::Do(Action::Forget))
}

/// The node agent stops: containers end, volumes go, the API keeps its objects. The records of containers that we
/// ended are removed, and no status is written, because it was not the workload that ended: the next start of the
/// node agent runs them again, even under `Never`. That we end a container is written down before we do, because we
/// may not live to see it end.
fn evicted(seen: &Observed) -> Step {
    if let Some(action) = dismissed(seen) {
        return Step::Do(action);
    }
    if let Some((container, number)) = find(seen, |attempt| attempt.running() && !attempt.evicted) {
        return Step::Do(Action::Evict { container, number });
    }
    if let Some(step) = stop(seen, |_| true, |attempt| drain_end(seen, attempt)) {
        return step;
    }
    if seen.inside { Step::Do(Action::Leave) } else { Step::Done }
}

fn drain_end(seen: &Observed, attempt: &Attempt) -> Timestamp {
    grace_from_term(attempt, seen.now, seen.config.drain_grace)
}

/// A run that was ended by us, now or by an earlier process: it is as if it had never been.
fn dismissed(seen: &Observed) -> Option<Action> {
    let (container, number) = find(seen, |attempt| attempt.evicted && !attempt.running())?;
    Some(Action::Remove { container, number })
}

fn find(seen: &Observed, wanted: impl Fn(&Attempt) -> bool) -> Option<(String, u32)> {
    seen.attempts.iter().find_map(|(name, attempts)| {
        let attempt = attempts.iter().find(|attempt| wanted(attempt))?;
        Some((name.clone(), attempt.number))
    })
}

fn grace_from_term(attempt: &Attempt, now: Timestamp, grace: Duration) -> Timestamp {
    let from = attempt.term_at.unwrap_or(now);
    from.checked_add(grace).unwrap_or(from)
}

/// Asks running containers to end, and kills them when their time is over. `None` when none runs.
fn stop(
    seen: &Observed,
    which: impl Fn(&Attempt) -> bool,
    deadline: impl Fn(&Attempt) -> Timestamp,
) -> Option<Step> {
    let all = seen.attempts.iter().flat_map(|(name, list)| list.iter().map(move |attempt| (name, attempt)));
    let running: Vec<(&String, &Attempt)> =
        all.filter(|(_, attempt)| attempt.running() && which(attempt)).collect();
    let signal =
        |name: &str, number, signal| Step::Do(Action::Signal { container: name.to_owned(), number, signal });
    if let Some((name, attempt)) = running.iter().find(|(_, a)| a.term_at.is_none()) {
        return Some(signal(name, attempt.number, SIGTERM));
    }
    let late = |(_, a): &&(&String, &Attempt)| !a.killed && deadline(a) <= seen.now;
    if let Some((name, attempt)) = running.iter().find(late) {
        return Some(signal(name, attempt.number, SIGKILL));
    }
    running.first()?;
    let next = running.iter().filter(|(_, a)| !a.killed).map(|(_, a)| deadline(a)).min();
    Some(Step::Wait(next.map_or(Why::Exiting, Why::Grace)))
}

/// Records and directories of a pod that has left, once its volumes are unmounted. Its logs go with its directory.
fn take_away(seen: &Observed) -> Option<Step> {
    if seen.left {
        return Some(Step::Wait(Why::Unmounting));
    }
    if let Some((container, attempt)) = ended(seen, |attempts| attempts) {
        let (container, number) = (container.to_owned(), attempt.number);
        return Some(Step::Do(Action::Remove { container, number }));
    }
    seen.directory.then_some(Step::Do(Action::CleanDirectory))
}

/// The first run that has ended, of those that `which` leaves of a container's.
fn ended(seen: &Observed, which: impl Fn(&[Attempt]) -> &[Attempt]) -> Option<(&str, &Attempt)> {
    let some = seen.attempts.iter().filter(|(_, attempts)| !attempts.is_empty());
    let mut ended = some.flat_map(|(name, attempts)| which(attempts).iter().map(move |a| (name.as_str(), a)));
    ended.find(|(_, attempt)| !attempt.running())
}
