//! What happens to a claim and to a volume. Pure; read this to know the behaviour.

mod claim;
pub mod matching;
mod status;
mod volume;

use bowline_machinery::Step;

use super::model::{Action, Observed, Why};

pub use status::{claim_status, shows};

pub fn decide(seen: &Observed) -> Step<Action, Why> {
    match seen {
        Observed::Claim(seen) => claim::decide(seen),
        Observed::Volume(seen) => volume::decide(seen),
    }
}

/// The `migrated-to` annotation as it should be; `None` when it already is.
fn migration_due(provisioner: Option<&str>, shown: Option<&str>) -> Option<Option<&'static str>> {
    let wanted = bowline_api::keys::migrated_driver(provisioner?);
    (wanted != shown).then_some(wanted)
}
