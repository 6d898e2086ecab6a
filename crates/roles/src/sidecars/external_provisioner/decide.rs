//! The behaviour: claims get volumes, released volumes go.

mod claim;
mod object;
mod ownership;
pub(super) mod parameters;
mod restore;
pub(super) mod source;
pub(super) mod template;
pub(super) mod topology;
mod volume;

use bowline_machinery::Step;

use super::model::{Action, Observed, Why};

pub use claim::{selected_node, volume_name, wanted_from};
pub use object::persistent_volume;
pub use ownership::is_open_to_bids;
pub use volume::ours;

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    match seen {
        Observed::Claim(seen) => claim::decide(seen),
        Observed::Volume(seen) => volume::decide(seen),
        Observed::Source(seen) => source::decide(seen),
        Observed::Snapshot(seen) => source::decide_snapshot(seen),
        Observed::Snapshots { handed_on: true, .. } => Step::Done,
        Observed::Snapshots { left, .. } if left.is_empty() => Step::Done,
        Observed::Snapshots { .. } => Step::Do(Action::HandOnSnapshots),
        Observed::Intents(unknown) if unknown.is_empty() => Step::Done,
        Observed::Intents(_) => Step::Do(Action::Adopt),
        Observed::Unstorable(why) => Step::Wait(Why::Unstorable(why.clone())),
    }
}
