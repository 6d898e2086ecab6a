//! Every kind and every admission plugin, in the order in which they run.

use std::sync::Arc;

use super::admission::{
    ClaimResize, DefaultClass, DefaultTolerations, Priorities, ServiceAccounts, StorageProtection,
};
use super::configmap::ConfigMapRules;
use super::csidriver::CSIDriverRules;
use super::csinode::CSINodeRules;
use super::csistoragecapacity::CSIStorageCapacityRules;
use super::event::EventRules;
use super::event_v1::EventV1Rules;
use super::lease::LeaseRules;
use super::namespace::NamespaceRules;
use super::node::NodeRules;
use super::persistentvolume::PersistentVolumeRules;
use super::persistentvolumeclaim::PersistentVolumeClaimRules;
use super::plain::{Plain, ROWS};
use super::pod::PodRules;
use super::poddisruptionbudget::PodDisruptionBudgetRules;
use super::priorityclass::PriorityClassRules;
use super::rbac::{ClusterRoleBindingRules, ClusterRoleRules, RoleBindingRules, RoleRules};
use super::secret::SecretRules;
use super::serviceaccount::ServiceAccountRules;
use super::storageclass::StorageClassRules;
use super::volumeattachment::VolumeAttachmentRules;
use super::volumeattributesclass::VolumeAttributesClassRules;
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
    registry.add::<EventV1Rules>();
    registry.add::<StorageClassRules>();
    registry.add::<CSIDriverRules>();
    registry.add::<CSINodeRules>();
    registry.add::<VolumeAttachmentRules>();
    registry.add::<CSIStorageCapacityRules>();
    registry.add::<LeaseRules>();
    registry.add::<VolumeAttributesClassRules>();
    registry.add::<RoleRules>();
    registry.add::<RoleBindingRules>();
    registry.add::<ClusterRoleRules>();
    registry.add::<ClusterRoleBindingRules>();
    registry.add::<PriorityClassRules>();
    registry.add::<PodDisruptionBudgetRules>();
    ROWS.iter().for_each(|row| registry.add_kind(Arc::new(Plain::new(*row))));
    review::register(registry);
}

/// The plugins, in upstream's order.
pub fn register_admission(registry: &mut Registry) {
    registry.admit(ServiceAccounts);
    registry.admit(NodeRestriction);
    registry.admit(Priorities);
    registry.admit(DefaultTolerations);
    registry.admit(DefaultClass);
    registry.admit(StorageProtection);
    registry.admit(ClaimResize);
    registry.admit(EscalationGuard);
}
