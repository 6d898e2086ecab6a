//! CSIStorageCapacity objects of external-provisioner (`--enable-capacity`): how much room the scheduler may count on.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | StorageClass, CSINode, Node, CSIStorageCapacity of its own; PersistentVolume and PersistentVolumeClaim for when to ask again | GetCapacity | CSIStorageCapacity (create, update, delete) |
//!
//! There is one object for each StorageClass of the driver and each topology segment. The driver is asked every
//! `--capacity-poll-interval`, and at once when a class or the topology changes, a volume was made or deleted, or a claim went
//! back to the scheduler.
//!
//! # Crash safety
//!
//! A create whose answer is lost may be repeated before the watch shows the first object: there are two then, and the younger
//! one is deleted. Nothing here is remembered that the driver does not say again.

mod act;
mod decide;
mod memory;
mod metrics;
mod model;
mod observe;
mod owner;
mod role;
#[cfg(test)]
mod tests;

pub use decide::{decide, segments};
pub use model::{Action, Key, Measured, Observed, Pair, Segment, Settings};
pub use role::{CapacityPublisher, Environment, Flags};
