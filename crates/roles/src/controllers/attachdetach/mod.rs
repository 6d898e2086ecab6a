//! kube-controller-manager's persistentvolume-attach-detach-controller: decides which volume belongs on which node.
//!
//! Desired: the volumes of pods that are bound to a node and have not ended. Actual: VolumeAttachments and
//! `node.status.volumesAttached`. Keyed by the unique name of a volume: one decision sees a volume on all
//! its nodes, so that a single writer is never attached twice. Nodes of a shared volume are worked on side by side.
//!
//! | watches | writes |
//! |---|---|
//! | Pod, PersistentVolumeClaim, PersistentVolume, VolumeAttachment, Node, CSIDriver | VolumeAttachment (create, delete), Node status (`volumesAttached`), events on pods |
//!
//! Promises:
//! - ATT-2: a single-writer volume gets a second attachment only when the object of the first is gone, which the
//!   external-attacher allows only after ControllerUnpublish. An attachment in any state blocks, attached or not.
//! - ATT-3: an attachment is deleted only when the node does not list the volume in `volumesInUse`, or carries the
//!   out-of-service taint, or has been unready or gone for the whole safety timer.
//! - A volume is reported in `volumesAttached` only after `status.attached`, and the removal of the report is accepted
//!   before the attachment is deleted.
//!
//! Before an attachment is deleted, the node is read past the cache, which may lag. Nothing can slip in after that read: the
//! kubelet publishes `volumesInUse` before it reads `volumesAttached`, where the volume is not listed any more.
//!
//! In memory are only timers, events already told, and the last words of nodes that are gone. After a restart the timers
//! start anew, and a gone node counts as using everything.
//!
//! Differences from upstream: everything is pushed, nothing polls; an uncertain attachment of a single-writer volume
//! blocks other nodes; handles may contain `^`; a lost attachment is noticed when its object changes, not after 60 s.
//! Attachments keep the handle of their volume in an annotation, so that they are detached although the volume's object was
//! removed by force; without the annotation they are left alone, as upstream does. In-tree migration is not there.

mod act;
mod decide;
mod measure;
mod memory;
mod model;
mod observe;
mod report;
mod role;
#[cfg(test)]
mod tests;
mod wake;

pub use decide::decide;
pub use model::{Action, Attachment, Key, NodeState, Observed, OnNode, Report, Why};
pub use role::{Controller, Flags};
