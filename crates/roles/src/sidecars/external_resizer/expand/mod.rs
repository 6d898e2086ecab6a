//! The expansion controller: a claim that asks for more than it has gets it.
//!
//! The size that is worked towards is written into the claim's status, then the driver is asked, then the volume gets the
//! confirmed size, then the claim is handed over to the kubelet or is done. Each step repeats safely: a volume that
//! is large enough already answers the same call with success.

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
pub use model::{Action, Attempt, Observed, Outcome, Settings, Why};
pub use role::Resizer;
