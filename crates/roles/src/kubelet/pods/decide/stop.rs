//! How containers and pods end.

use std::time::Duration;

use bowline_api::{Container, Meta, Pod, pod};

use crate::kubelet::pods::handlers::signal_number;
use crate::kubelet::pods::model::{Action, Attempt, Hook, HookState, Observed, SIGKILL, SIGTERM, Step, Why};
use crate::kubelet::pods::probes;
use crate::kubelet::pods::{spec, status};

/// What the containers of a pod that is no longer in the API get to end by themselves.
const GONE_GRACE: Duration = Duration::from_secs(1);
/// What a container has left at least when its preStop hook is over.
const GRACE_AFTER_HOOK: Duration = Duration::from_secs(2);
/// What upstream's defaults write into a pod.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// Over, but still in the API: containers that somebody else's verdict left running end, then its volumes go.
pub(super) fn finished(seen: &Observed) -> Step {
    if let Some(step) = stop(seen, None, |_, _| true, |_, attempt| grace_end(seen, attempt, GONE_GRACE)) {
        return step;
    }
    if seen.inside { Step::Do(Action::Leave) } else { Step::Done }
}

/// Every container of a pod whose time is over.
pub(super) fn of_all(seen: &Observed, pod: &Pod) -> Option<Step> {
    stop(seen, Some(pod), |_, _| true, |_, attempt| grace_end(seen, attempt, grace(pod)))
}

/// Containers that an earlier process had begun to end.
pub(super) fn of_evicted(seen: &Observed, pod: &Pod) -> Option<Step> {
    stop(seen, Some(pod), |_, attempt| attempt.evicted, |_, attempt| drain_end(seen, attempt))
}

/// Containers that failed a probe or their postStart hook.
pub(super) fn of_condemned(seen: &Observed, pod: &Pod) -> Option<Step> {
    let container = |name: &str| spec::app_containers(pod).iter().find(|one| one.name == name);
    let condemned = |name: &str, attempt: &Attempt| {
        container(name).is_some_and(|one| probes::condemned(pod, one, attempt).is_some())
    };
    let end = |name: &str, attempt: &Attempt| {
        let own = container(name).and_then(|one| probes::grace(one, attempt));
        grace_end(seen, attempt, own.unwrap_or_else(|| grace(pod)))
    };
    stop(seen, Some(pod), condemned, end)
}

/// Every container of a pod that is being deleted. Its time counts from when this process heard of it: the deletionTimestamp
/// is of the API server's clock.
fn of_deleted(seen: &Observed, pod: &Pod) -> Option<Step> {
    let given = pod.meta().deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let given = given.map_or_else(|| grace(pod), Duration::from_secs);
    let end = seen.deleting_since.unwrap_or(seen.now).saturating_add(given);
    stop(seen, Some(pod), |_, _| true, |_, _| end)
}

/// When the next container has used up its time to end, if one is ending: nothing else may take longer than that.
pub fn next_kill(seen: &Observed, pod: &Pod) -> Option<Duration> {
    let ending = if pod.deleting() { of_deleted(seen, pod) } else { of_condemned(seen, pod) };
    match ending? {
        Step::Wait(why) => why.until(),
        _ => None,
    }
}

/// What the pod gives its containers to end.
fn grace(pod: &Pod) -> Duration {
    let given = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    given.and_then(|seconds| u64::try_from(seconds).ok()).map_or(DEFAULT_GRACE, Duration::from_secs)
}

/// The Pod object outlives its containers and its mounts: nobody may believe the volume free before it is.
pub(super) fn ending(seen: &Observed, pod: &Pod) -> Step {
    match of_deleted(seen, pod) {
        Some(Step::Wait(why)) => return still_running(seen, pod, why),
        Some(step) => return step,
        None => {}
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

/// While containers take their time to end, those who send them work hear whether they still take it.
fn still_running(seen: &Observed, pod: &Pod, why: Why) -> Step {
    if !spec::app_containers(pod).iter().any(|container| container.readiness_probe.is_some()) {
        return Step::Wait(why);
    }
    if let Some(patch) = status::changed(seen, pod) {
        return Step::Do(Action::PatchStatus(patch));
    }
    match super::probe(seen, pod) {
        Some(Ok(action)) => Step::Do(action),
        Some(Err(at)) => Step::Wait(Why::Until(Box::new(why), at)),
        None => Step::Wait(why),
    }
}

pub(super) fn gone(seen: &Observed) -> Step {
    if let Some(step) = stop(seen, None, |_, _| true, |_, attempt| grace_end(seen, attempt, GONE_GRACE)) {
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
pub(super) fn evicted(seen: &Observed, pod: &Pod) -> Step {
    if let Some(action) = dismissed(seen) {
        return Step::Do(action);
    }
    if let Some((container, number)) = find(seen, |attempt| attempt.running() && !attempt.evicted) {
        return Step::Do(Action::Evict { container, number });
    }
    if let Some(step) = stop(seen, Some(pod), |_, _| true, |_, attempt| drain_end(seen, attempt)) {
        return step;
    }
    if let Some(action) = init_again(seen, pod) {
        return Step::Do(action);
    }
    if seen.inside { Step::Do(Action::Leave) } else { Step::Done }
}

/// Forgets the runs of init containers before volumes go: what they put into those in memory goes along, so the next
/// start begins with them. A pod that has nothing left to run needs none.
fn init_again(seen: &Observed, pod: &Pod) -> Option<Action> {
    let unfinished = spec::app_containers(pod).iter().any(|one| seen.latest(&one.name).is_none());
    let mut init = spec::init_containers(pod).iter().filter(|_| unfinished);
    let (container, number) =
        init.find_map(|one| Some((one.name.clone(), seen.latest(&one.name)?.number)))?;
    Some(Action::Remove { container, number })
}

fn drain_end(seen: &Observed, attempt: &Attempt) -> Duration {
    grace_end(seen, attempt, seen.config.drain_grace)
}

/// A run that was ended by us, now or by an earlier process: it is as if it had never been.
pub(super) fn dismissed(seen: &Observed) -> Option<Action> {
    let (container, number) = find(seen, |attempt| attempt.evicted && !attempt.running())?;
    Some(Action::Remove { container, number })
}

fn find(seen: &Observed, wanted: impl Fn(&Attempt) -> bool) -> Option<(String, u32)> {
    seen.attempts.iter().find_map(|(name, attempts)| {
        let attempt = attempts.iter().find(|attempt| wanted(attempt))?;
        Some((name.clone(), attempt.number))
    })
}

fn grace_end(seen: &Observed, attempt: &Attempt, grace: Duration) -> Duration {
    attempt.stopping_since.or(attempt.term_at).unwrap_or(seen.now).saturating_add(grace)
}

/// Runs preStop hooks, asks running containers to end, and kills them when their time is over. `None` when none runs.
fn stop(
    seen: &Observed,
    pod: Option<&Pod>,
    which: impl Fn(&str, &Attempt) -> bool,
    deadline: impl Fn(&str, &Attempt) -> Duration,
) -> Option<Step> {
    let all = seen.attempts.iter().flat_map(|(name, list)| list.iter().map(move |attempt| (name, attempt)));
    let running = all.filter(|(name, attempt)| attempt.running() && which(name, attempt));
    let mut waits = None;
    for (name, attempt) in running {
        let container = pod.and_then(|pod| pod::containers(pod).find(|one| one.name == *name));
        match next(seen, pod, container, name, attempt, deadline(name, attempt)) {
            Step::Do(action) => return Some(Step::Do(action)),
            Step::Wait(Why::Grace(at)) => {
                let soonest = match waits {
                    Some(Why::Grace(other)) => at.min(other),
                    _ => at,
                };
                waits = Some(Why::Grace(soonest));
            }
            _ => drop(waits.get_or_insert(Why::Exiting)),
        }
    }
    waits.map(Step::Wait)
}

/// What is next for one container that is to end until `deadline`.
fn next(
    seen: &Observed,
    pod: Option<&Pod>,
    container: Option<&Container>,
    name: &str,
    attempt: &Attempt,
    deadline: Duration,
) -> Step {
    let (name, number) = (name.to_owned(), attempt.number);
    let Some(term_at) = attempt.term_at else {
        let lifecycle = container.and_then(|container| container.lifecycle.as_ref());
        let hook = lifecycle.is_some_and(|lifecycle| lifecycle.pre_stop.is_some()) && deadline > seen.now;
        return match attempt.pre_stop {
            HookState::NotRun if hook => {
                let text = Some(killing(pod, container, &name, attempt));
                let (hook, deadline) = (Hook::PreStop, Some(deadline));
                Step::Do(Action::RunHook { container: name, number, hook, deadline, text })
            }
            HookState::Running if deadline > seen.now => Step::Wait(Why::Grace(deadline)),
            _ => {
                let asked = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref());
                let signal = asked.and_then(signal_number).unwrap_or(SIGTERM);
                let text = killing(pod, container, &name, attempt);
                Step::Do(Action::Signal { container: name, number, signal, text })
            }
        };
    };
    let least = (attempt.pre_stop != HookState::NotRun).then(|| term_at.saturating_add(GRACE_AFTER_HOOK));
    let kill_at = least.map_or(deadline, |least| least.max(deadline));
    if attempt.killed {
        Step::Wait(Why::Exiting)
    } else if kill_at <= seen.now {
        let text = format!("Stopping container {name}");
        Step::Do(Action::Signal { container: name, number, signal: SIGKILL, text })
    } else {
        Step::Wait(Why::Grace(kill_at))
    }
}

/// What the pod is told when a container begins to end.
fn killing(pod: Option<&Pod>, container: Option<&Container>, name: &str, attempt: &Attempt) -> String {
    let condemned = pod.zip(container).and_then(|(pod, one)| probes::condemned(pod, one, attempt));
    condemned.unwrap_or_else(|| format!("Stopping container {name}"))
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
pub(super) fn ended(seen: &Observed, which: impl Fn(&[Attempt]) -> &[Attempt]) -> Option<(&str, &Attempt)> {
    let some = seen.attempts.iter().filter(|(_, attempts)| !attempts.is_empty());
    let mut ended = some.flat_map(|(name, attempts)| which(attempts).iter().map(move |a| (name.as_str(), a)));
    ended.find(|(_, attempt)| !attempt.running())
}
