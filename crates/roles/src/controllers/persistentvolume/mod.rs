//! `persistentvolume-binder-controller`: brings claims and volumes together and lets them part.
//!
//! **Watches** claims, volumes, classes, and pods (only to say whom a claim waits for).
//! **Writes** `volume.spec.claimRef` and `volume.status`, `claim.spec.volumeName`, `claim.status`, the annotations
//! `bind-completed`, `bound-by-controller`, `storage-provisioner` and `migrated-to`, and a claim's default class.
//! **Calls** no driver: whoever the claim's `storage-provisioner` annotation names makes and deletes volumes.
//!
//! Binding is four writes, driven from the claim's key, each of which may be the last before a crash: volume reserved,
//! volume Bound, claim complete, claim Bound. Every prefix is a state from which the next pass goes on. The volume's
//! key only looks after volumes that nobody is binding: Available, Released, unbound again, Failed.
//!
//! # Promises
//! BIND-1: a volume is only ever reserved for a claim when it names nobody or this very claim, and the write is refused
//! when somebody else was faster; a complete pair is never taken apart while both exist.
//! BIND-2: what a claim asks for (size, modes, class, attributes class, selector) holds for what it gets, unless a
//! person linked both sides by hand.
//! PROV-3: nothing here deletes a volume; Released is shown only after the API server itself denied the claim.
//!
//! # Upstream
//! Differs in that nothing waits for a 15 s resync (a new volume, class or default class wakes the claims it may help),
//! that waiting claims get an event when the reason changes instead of every 15 s, that `Lost` is confirmed by a live
//! read, that a volume already reserved for a claim is preferred over all others, and that a claim which is being
//! deleted gets no new volume.

mod act;
pub mod decide;
mod model;
mod observe;
mod promise;
mod role;
#[cfg(test)]
mod tests;

pub(crate) use act::reserved;
pub use model::{Action, ClaimSeen, Key, Observed, VolumeSeen, Why};
pub use role::{Binder, Flags};
