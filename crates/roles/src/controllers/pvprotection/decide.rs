//! When a volume is guarded. Pure.

use bowline_api::{Meta, keys, volume};
use bowline_machinery::Step;

use super::model::{Action, Observed, Why};

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    let guarded = seen.volume.has_finalizer(keys::PV_PROTECTION);
    let bound = volume::volume_phase(&seen.volume) == volume::BOUND;
    match (seen.volume.deleting(), guarded) {
        (false, false) => Step::Do(Action::AddFinalizer),
        (false, true) => Step::Done,
        (true, true) if bound => Step::Wait(Why::Bound),
        (true, true) => Step::Do(Action::RemoveFinalizer),
        // A finalizer cannot be added to what is being deleted.
        (true, false) => Step::Done,
    }
}
