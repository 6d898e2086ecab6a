//! Every kind and every admission plugin, in the order in which they run.

use super::admission::{ClaimResize, DefaultClass, DefaultTolerations, ServiceAccounts, StorageProtection};
use super::configmap::ConfigMapRules;
use super::csidriver::CSIDriverRules;
use super::csinode::CSINodeRules;
use super::csistoragecapacity::CSIStorageCapacityRules;
use super::event::EventRules;
use super::lease::LeaseRules;
use super::namespace::NamespaceRules;
use super::node::NodeRules;
use super::persistentvolume::PersistentVolumeRules;
use super::persistentvolumeclaim::PersistentVolumeClaimRules;
use super::pod::PodRules;
use super::secret::SecretRules;
use super::serviceaccount::ServiceAccountRules;
use super::storageclass::StorageClassRules;
use super::volumeattachment::VolumeAttachmentRules;
use crate::auth::node::NodeRestriction;
use crate::auth::rbac::EscalationGuard;
use crate::auth::review;
use crate::registry::Registry;

/// The kinds.
pub fn register(registry: &mut Registry) {
    registry.add::<NamespaceRules>();
    registry.add::<NodeRules>();
    registry.add::<PodRules>();
    registry.add::<PersistentVolumeRules>();
    registry.add::<PersistentVolumeClaimRules>();
    registry.add::<SecretRules>();
    registry.add::<ConfigMapRules>();
    registry.add::<ServiceAccountRules>();
    registry.add::<EventRules>();
    registry.add::<StorageClassRules>();
    registry.add::<CSIDriverRules>();
    registry.add::<CSINodeRules>();
    registry.add::<VolumeAttachmentRules>();
    registry.add::<CSIStorageCapacityRules>();
    registry.add::<LeaseRules>();
    review::register(registry);
}

/// The plugins, in upstream's order.
pub fn register_admission(registry: &mut Registry) {
    registry.admit(ServiceAccounts);
    registry.admit(NodeRestriction);
    registry.admit(DefaultTolerations);
    registry.admit(DefaultClass);
    registry.admit(StorageProtection);
    registry.admit(ClaimResize);
    registry.admit(EscalationGuard);
}
