//! What to do next about one pod. Reading this file is reading the behaviour.

mod start;
mod stop;

use std::time::Duration;

use bowline_api::{Meta, Pod, pod};

use super::model::{Action, Hook, HookState, Observed, PodVolumes, Step, Why};
use super::probes;
use super::{spec, status};
use crate::kubelet::Reported;
pub use start::{Run, backing_off, blocked, run_of};
pub use stop::next_kill;

/// A volume that cannot be worked out for this long is worth an event: before, the watches may just be apart.
const PROBLEM_PATIENCE: Duration = Duration::from_secs(10);

pub fn decide(seen: &Observed) -> Step {
    let Some(pod) = &seen.pod else { return stop::gone(seen) };
    if pod.deleting() {
        return stop::ending(seen, pod);
    }
    if seen.evicting {
        return stop::evicted(seen, pod);
    }
    match pod::phase(pod) {
        "Succeeded" | "Failed" => stop::finished(seen),
        _ => alive(seen, pod),
    }
}

/// Entered first, then the volumes, then the containers; the status tells of each of these.
fn alive(seen: &Observed, pod: &Pod) -> Step {
    if !seen.inside {
        return Step::Do(Action::Enter);
    }
    if let Some(action) = stop::dismissed(seen) {
        return Step::Do(action);
    }
    // What an earlier process began to end: only an end that is certainly ours is not taken for the workload's.
    if let Some(step) = stop::of_evicted(seen, pod) {
        return step;
    }
    let deadline = deadline(seen, pod);
    if deadline.is_some_and(|at| at <= seen.now) {
        return over(seen, pod, status::deadline_exceeded);
    }
    if let Some(why) = &seen.rejected {
        return over(seen, pod, |seen, pod| status::attach_limit_exceeded(seen, pod, why));
    }
    let mut again = deadline;
    let mut look_at = |at: Option<Duration>| again = [again, at].into_iter().flatten().min();
    match stop::of_condemned(seen, pod) {
        Some(Step::Wait(why)) => look_at(why.until()),
        Some(step) => return step,
        None => {}
    }
    if let Some(action) = post_start(seen, pod) {
        return Step::Do(action);
    }
    let next = start::next_start(seen, pod);
    if let Some(Ok(action)) = next {
        return Step::Do(action);
    }
    if let Some(patch) = status::changed(seen, pod) {
        return Step::Do(Action::PatchStatus(patch));
    }
    // The end of an earlier run is in the status now; its record has served. What it wrote stays, because
    // `kubectl logs --previous` shows it; what runs before it wrote does not.
    if let Some((container, attempt)) = stop::ended(seen, |attempts| &attempts[..attempts.len() - 1]) {
        let (container, number) = (container.to_owned(), attempt.number);
        return Step::Do(match attempt.logs_removed {
            false => Action::RemoveLogs { container, before: number },
            true => Action::Remove { container, number },
        });
    }
    match probe(seen, pod) {
        Some(Ok(action)) => return Step::Do(action),
        Some(Err(at)) => look_at(Some(at)),
        None => {}
    }
    let waits = match (volume_problem(seen), next) {
        (Some(step), _) => step,
        (None, Some(Err(why))) => Step::Wait(why),
        (None, _) => Step::Done,
    };
    match (waits, again) {
        (Step::Wait(why), Some(at)) => Step::Wait(Why::Until(Box::new(why), at)),
        (Step::Done, Some(at)) => Step::Wait(Why::Scheduled(at)),
        (step, _) => step,
    }
}

/// When the pod has been active for as long as it may be.
fn deadline(seen: &Observed, pod: &Pod) -> Option<Duration> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let (since, before) = seen.active.unwrap_or((seen.now, Duration::ZERO));
    Some(since.saturating_add(limit.saturating_sub(before)))
}

/// It may not go on: its containers end, and then it has failed.
fn over(seen: &Observed, pod: &Pod, failed: impl Fn(&Observed, &Pod) -> serde_json::Value) -> Step {
    if let Some(step) = stop::of_all(seen, pod) {
        return step;
    }
    Step::Do(Action::PatchStatus(failed(seen, pod)))
}

/// A postStart hook that has not run yet.
fn post_start(seen: &Observed, pod: &Pod) -> Option<Action> {
    spec::app_containers(pod).iter().find_map(|container| {
        let attempt = seen.latest(&container.name).filter(|attempt| attempt.running())?;
        let waits = attempt.post_start == HookState::NotRun && attempt.term_at.is_none();
        let due = waits && !probes::post_start_done(seen, pod, container, attempt);
        let (container, number) = (container.name.clone(), attempt.number);
        due.then_some(Action::RunHook {
            container,
            number,
            hook: Hook::PostStart,
            deadline: None,
            text: None,
        })
    })
}

/// The next probe of any container, or when it is due.
pub(super) fn probe(seen: &Observed, pod: &Pod) -> Option<Result<Action, Duration>> {
    let mut soonest: Option<Duration> = None;
    for container in spec::app_containers(pod) {
        let Some(attempt) = seen.latest(&container.name) else { continue };
        match probes::next(seen, pod, container, attempt) {
            Some(Ok(kind)) => {
                let (container, number) = (container.name.clone(), attempt.number);
                return Some(Ok(Action::Probe { container, number, kind }));
            }
            Some(Err(at)) => soonest = Some(soonest.map_or(at, |known| known.min(at))),
            None => {}
        }
    }
    soonest.map(Err)
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
    let patience = since.saturating_add(PROBLEM_PATIENCE);
    let due = Reported::due(seen.told.as_ref(), &text, patience);
    Some(match seen.now {
        now if now < patience => Step::Wait(Why::VolumeProblem(patience)),
        now if now < due => Step::Wait(Why::Until(Box::new(Why::Told(text)), due)),
        _ => Step::Do(Action::Report(text)),
    })
}
