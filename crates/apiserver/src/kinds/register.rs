//! Every kind and every admission plugin, in the order in which they run.

use std::sync::Arc;

use super::admission::{
    ClaimResize, DefaultClass, DefaultTolerations, PodSecurity, Priorities, RuntimeClasses, ServiceAccounts,
    ServiceAddresses, StorageProtection,
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
use super::plugins::{self, Plugins};
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

/// The plugins, in upstream's order. Pods run as somebody who need not exist, and get no token: for those who have
/// neither controllers nor kubelets.
pub fn register_admission(registry: &mut Registry) {
    register_plugins(registry, Some(ServiceAccounts { tokens: false }), &Plugins::default());
}

/// The plugins of a cluster: all of them but those that are turned off.
pub fn register_admission_of(registry: &mut Registry, plugins: &Plugins) {
    let accounts = plugins.on(plugins::SERVICE_ACCOUNT).then_some(ServiceAccounts { tokens: true });
    register_plugins(registry, accounts, plugins);
}

fn register_plugins(registry: &mut Registry, accounts: Option<ServiceAccounts>, plugins: &Plugins) {
    if let Some(accounts) = accounts {
        registry.admit(accounts);
    }
    if plugins.on(plugins::NODE_RESTRICTION) {
        registry.admit(NodeRestriction);
    }
    if plugins.on(plugins::POD_SECURITY) {
        registry.admit(PodSecurity);
    }
    if plugins.on(plugins::PRIORITY) {
        registry.admit(Priorities);
    }
    if plugins.on(plugins::TOLERATIONS) {
        registry.admit(DefaultTolerations);
    }
    if plugins.on(plugins::STORAGE_CLASS) {
        registry.admit(DefaultClass);
    }
    if plugins.on(plugins::STORAGE_PROTECTION) {
        registry.admit(StorageProtection);
    }
    if plugins.on(plugins::CLAIM_RESIZE) {
        registry.admit(ClaimResize);
    }
    if plugins.on(plugins::RUNTIME_CLASS) {
        registry.admit(RuntimeClasses);
    }
    // Parts of the server upstream, which nobody can turn off.
    registry.admit(EscalationGuard);
    registry.admit(ServiceAddresses::default());
}
