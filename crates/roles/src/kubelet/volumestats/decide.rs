//! When a driver is asked for the statistics of a volume.

use super::model::{Action, DriverSeen, Observed, Step, Why};

pub fn decide(seen: &Observed) -> Step {
    if seen.mounted.is_none() {
        return Step::Do(Action::Forget);
    }
    match seen.driver {
        // What it said before it left is old news.
        DriverSeen::Missing | DriverSeen::Unable if seen.shown => Step::Do(Action::Forget),
        DriverSeen::Missing => Step::Wait(Why::DriverMissing),
        DriverSeen::Unable => Step::Wait(Why::DriverUnable),
        DriverSeen::Able if seen.due <= seen.now => Step::Do(Action::Ask),
        DriverSeen::Able => Step::Wait(Why::Due(seen.due)),
    }
}
