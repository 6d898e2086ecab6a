//! The modify controller: a claim that names another VolumeAttributesClass gets it.
//!
//! The class that is worked towards is written into the claim's status, then the driver is asked, then the volume gets the
//! class's name, then the claim. While it is not known how a call ended, only the class in the status is asked for again.
//! A claim that is in progress counts as uncertain unless this process has heard a final answer since: a restart knows
//! nothing of the calls before it.

mod act;
mod decide;
mod memory;
mod model;
mod observe;
mod patch;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Attempt, Failure, Observed, Outcome, Settings, Why};
pub use role::Modifier;
