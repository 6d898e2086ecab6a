//! kubernetes-csi/external-attacher (csi-attacher): asks a driver to attach and detach volumes.
//!
//! The attach/detach controller creates and deletes VolumeAttachments; this role carries them out for one driver.
//!
//! | watches | calls | writes |
//! |---|---|---|
//! | VolumeAttachment, PersistentVolume, CSINode | ControllerPublishVolume, ControllerUnpublishVolume, ListVolumes | VolumeAttachment (finalizer, node-id annotation, status), PersistentVolume (finalizer) |
//!
//! Promise ATT-1: the finalizer and the node id stand on the attachment before ControllerPublish is sent, and the
//! finalizer goes only after ControllerUnpublish was answered with success. So a deleted attachment object means
//! that the volume is detached, whatever crashed in between.
//!
//! Nothing but the driver's last answer is kept in memory. If that is lost, the same call is repeated.
//!
//! Differences from upstream: a changed CSINode or a volume that appears wakes waiting attachments at once; a volume is
//! detached from the node id that was noted before its publish, also if the CSINode names another one by then; in-tree
//! migration is not there.
//!
//! Every `--reconcile-sync` the driver lists which volumes are published where (`reconcile`). An attachment that says
//! otherwise is worked on once more although its status is settled; nothing else comes of the list.

mod act;
mod decide;
mod model;
mod observe;
mod reconcile;
mod role;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use model::{Action, Answer, Attachment, Key, Observed, Source, Target, Volume, Why};
pub use role::{Attacher, Flags};
