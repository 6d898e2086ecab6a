//! Every kind and every admission plugin, in the order in which they run.

use std::sync::Arc;

use super::admission::{
    ClaimResize, DefaultClass, DefaultTolerations, Priorities, ServiceAccounts, ServiceAddresses,
    StorageProtection,
};
use super::binding::BindingRules;
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
use super::service::ServiceRules;
use super::serviceaccount::ServiceAccountRules;
use super::storageclass::StorageClassRules;
use super::volumeattachment::VolumeAttachmentRules;
use super::volumeattributesclass::VolumeAttributesClassRules;
use super::workload::cronjob::CronJobRules;
use super::workload::daemonset::DaemonSetRules;
use super::workload::deployment::DeploymentRules;
use super::workload::job::JobRules;
use super::workload::podtemplate::PodTemplateRules;
use super::workload::replicaset::ReplicaSetRules;
use super::workload::replicationcontroller::ReplicationControllerRules;
use super::workload::statefulset::StatefulSetRules;
use crate::auth::node::NodeRestriction;
use crate::auth::rbac::EscalationGuard;
use crate::auth::review;
use crate::custom::DefinitionKind;
use crate::registry::Registry;

/// The kinds.
pub fn register(registry: &mut Registry) {
    registry.add_kind(Arc::new(DefinitionKind::default()));
    registry.add::<NamespaceRules>();
    registry.add::<NodeRules>();
    registry.add::<PodRules>();
    registry.add::<BindingRules>();
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
    registry.add::<ServiceRules>();
    registry.add::<ReplicationControllerRules>();
    registry.add::<PodTemplateRules>();
    registry.add::<DeploymentRules>();
    registry.add::<ReplicaSetRules>();
    registry.add::<StatefulSetRules>();
    registry.add::<DaemonSetRules>();
    registry.add::<JobRules>();
    registry.add::<CronJobRules>();
    ROWS.iter().for_each(|row| registry.add_kind(Arc::new(Plain::new(*row))));
    review::register(registry);
}

/// The plugins, in upstream's order.
pub fn register_admission(registry: &mut Registry) {
    register_plugins(registry, ServiceAccounts { tokens: false });
}

/// The same, for clusters where accounts exist and have tokens.
pub fn register_admission_with_tokens(registry: &mut Registry) {
    register_plugins(registry, ServiceAccounts { tokens: true });
}

fn register_plugins(registry: &mut Registry, accounts: ServiceAccounts) {
    registry.admit(accounts);
    registry.admit(NodeRestriction);
    registry.admit(Priorities);
    registry.admit(DefaultTolerations);
    registry.admit(DefaultClass);
    registry.admit(StorageProtection);
    registry.admit(ClaimResize);
    registry.admit(EscalationGuard);
    registry.admit(ServiceAddresses::default());
}
