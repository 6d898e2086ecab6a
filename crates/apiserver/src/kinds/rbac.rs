//! Roles and who has them, for a namespace or for the whole cluster. What they mean is the authorizer's matter.

mod bindings;
mod roles;

pub use bindings::{ClusterRoleBindingRules, RoleBindingRules};
pub use roles::{ClusterRoleRules, RoleRules};

/// The group of these kinds, of the roles that a binding names, and of users and groups.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// How far a kind reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Namespace,
    Cluster,
}
