//! Admission of storage objects and pods: what the server itself adds or refuses beyond the rules of a kind.
//!
//! The decisions are functions of typed objects; [`plugins`] ties them to requests.

mod claim_resize;
mod default_class;
mod default_tolerations;
mod plugins;
mod pod_security;
mod priority;
mod runtime_class;
mod service_account;
mod service_addresses;
mod storage_protection;

pub use claim_resize::resize_refusal;
pub use default_class::set_default_class;
pub use default_tolerations::tolerate_lost_nodes;
pub use plugins::{ClaimResize, DefaultClass, DefaultTolerations, ServiceAccounts, StorageProtection};
pub use pod_security::PodSecurity;
pub use priority::Priorities;
pub use runtime_class::RuntimeClasses;
pub use service_account::{equip, is_mirror, set_service_account};
pub use service_addresses::ServiceAddresses;
pub use storage_protection::{protect_attributes_class, protect_claim, protect_volume};
