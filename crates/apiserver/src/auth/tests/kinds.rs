//! Roles and bindings without rules of their own.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::Value;

use crate::field::Invalid;
use crate::kinds::{Column, Names, Rules, column};
use crate::registry::Registry;

const COLUMNS: &[Column] = &[column::NAME];

macro_rules! kind {
    ($rules:ident, $object:ty, $plural:literal, $singular:literal, $namespaced:literal) => {
        struct $rules;
        impl Rules for $rules {
            type Object = $object;
            const NAMES: Names = Names { plural: $plural, singular: $singular, short: &[], categories: &[] };
            const NAMESPACED: bool = $namespaced;
            fn validate(_: &Self::Object) -> Vec<Invalid> {
                Vec::new()
            }
            fn name_errors(_: &str) -> Vec<String> {
                Vec::new()
            }
            fn columns() -> &'static [Column] {
                COLUMNS
            }
            fn cells(object: &Self::Object, _: jiff::Timestamp) -> Vec<Value> {
                vec![object.metadata.name.clone().into()]
            }
        }
    };
}

kind!(Roles, Role, "roles", "role", true);
kind!(RoleBindings, RoleBinding, "rolebindings", "rolebinding", true);
kind!(ClusterRoles, ClusterRole, "clusterroles", "clusterrole", false);
kind!(ClusterRoleBindings, ClusterRoleBinding, "clusterrolebindings", "clusterrolebinding", false);

pub fn register(registry: &mut Registry) {
    registry.add::<Roles>();
    registry.add::<RoleBindings>();
    registry.add::<ClusterRoles>();
    registry.add::<ClusterRoleBindings>();
}
