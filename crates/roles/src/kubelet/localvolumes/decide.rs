//! What to do next about one volume. Reading this file is reading the behaviour.

use super::model::{Action, Observed, Presence, Step, Want, Why};
use super::payload::Files;
use super::plan::{Medium, Plan};
use crate::kubelet::Reported;

pub fn decide(seen: &Observed) -> Step {
    match (seen.want, &seen.asked) {
        (Want::Ready, Some((_, plan))) => set_up(seen, plan),
        (Want::Ready | Want::AsItIs, _) => Step::Wait(Why::InUse),
        (Want::Unmounted, _) => unmount(seen).unwrap_or(Step::Done),
        (Want::Gone, _) => take_down(seen),
    }
}

/// Everything that the volume is made of first, so that nothing is mounted in vain. The token is asked for while the
/// watches are still looking. One that is still good is renewed last: if that cannot be done, all else goes on.
fn set_up(seen: &Observed, plan: &Plan) -> Step {
    if let Some(wanted) = seen.token_missing() {
        return Step::Do(Action::RequestToken(wanted.clone()));
    }
    let payload = match &seen.files {
        Files::Ready(payload) => payload,
        Files::Looking => return Step::Wait(Why::Looking),
        Files::Impossible(why) => return report(seen, why),
    };
    if seen.state.directory != Presence::Present {
        return Step::Do(Action::MakeDirectory);
    }
    match plan.medium {
        Medium::Memory(size) if seen.state.mount != Presence::Present => {
            return Step::Do(Action::MountMemory(size));
        }
        Medium::Memory(_) | Medium::Disk => {}
    }
    if let Some(gid) = plan.group.filter(|gid| seen.state.group != Some(*gid)) {
        return Step::Do(Action::GiveToGroup(gid));
    }
    if plan.sources.is_some() && seen.state.written.as_ref() != Some(payload) {
        return Step::Do(Action::Write(payload.clone()));
    }
    match seen.next_renewal() {
        Some((wanted, at)) if at <= seen.now => Step::Do(Action::RequestToken(wanted.clone())),
        Some((_, at)) => Step::Wait(Why::Renewal(at)),
        None => Step::Done,
    }
}

fn report(seen: &Observed, why: &str) -> Step {
    let text = set_up_failed(&seen.name, why);
    let due = Reported::due(seen.state.told.as_ref(), &text, seen.now);
    if due <= seen.now { Step::Do(Action::Report(text)) } else { Step::Wait(Why::Told(text, due)) }
}

/// Upstream's words.
pub fn set_up_failed(volume: &str, why: &str) -> String {
    format!("MountVolume.SetUp failed for volume {volume:?} : {why}")
}

fn unmount(seen: &Observed) -> Option<Step> {
    if seen.state.mount == Presence::Absent {
        return None;
    }
    Some(if seen.may_remove { Step::Do(Action::Unmount) } else { Step::Wait(Why::NotCounted) })
}

fn take_down(seen: &Observed) -> Step {
    if let Some(step) = unmount(seen) {
        return step;
    }
    match seen.state.directory {
        Presence::Absent => Step::Do(Action::Forget),
        _ if seen.may_remove => Step::Do(Action::Remove),
        _ => Step::Wait(Why::NotCounted),
    }
}
