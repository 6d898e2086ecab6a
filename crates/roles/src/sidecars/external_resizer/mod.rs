//! kubernetes-csi/external-resizer (csi-resizer): enlarges volumes and changes their attributes class.
//!
//! Two controllers of one program, each with a queue of its own: [`expand`] drives claims that ask for more than they have,
//! [`modify`] those that ask for another VolumeAttributesClass.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | PersistentVolumeClaim, PersistentVolume, Pod, VolumeAttributesClass | ControllerExpandVolume, ControllerModifyVolume | status of PersistentVolumeClaim; capacity and attributes class of PersistentVolume |
//!
//! Promise RES-1: a volume never shrinks below what its claim was promised, and no status claims more than the driver
//! confirmed. The size that is worked towards stands in the claim's status before the driver is asked for it. While it is not
//! known how a call ended, only that size is asked for again, whatever the claim asks for meanwhile.
//!
//! What is kept in memory is back-off: that the last call was refused for good (so that another size may be tried),
//! when a refused size is tried again, that the driver refuses volumes in use, and the last answer until it is written down.
//! A restart forgets it and repeats the call that the claim's status names, which is what it would do anyway.

mod abilities;
mod conditions;
pub mod expand;
mod memory;
pub mod modify;
mod run;

pub use run::{Flags, Gates, run, serves};

/// Upstream's name: in the journal and in failpoints; events add the driver's.
pub const NAME: &str = "external-resizer";
