//! RoleBinding and ClusterRoleBinding: who may.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{GROUP, Reach};
use crate::field::Invalid;
use crate::kinds::check::{self, names};
use crate::kinds::{Column, Names, Rules, age, column};

const SERVICE_ACCOUNT: &str = "ServiceAccount";
const USER: &str = "User";
const GROUP_KIND: &str = "Group";

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Role", "What the subjects may do."),
    column::AGE,
    column::wide(column::text("Users", "Users that have the role.")),
    column::wide(column::text("Groups", "Groups that have the role.")),
    column::wide(column::text("ServiceAccounts", "Service accounts that have the role.")),
];

pub struct RoleBindingRules;
pub struct ClusterRoleBindingRules;

impl Rules for RoleBindingRules {
    type Object = RoleBinding;
    const NAMES: Names =
        Names { plural: "rolebindings", singular: "rolebinding", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const CREATE_ON_UPDATE: bool = true;

    fn default_fields(binding: &mut RoleBinding) {
        default_groups(&mut binding.role_ref, binding.subjects.as_mut());
    }

    fn validate(binding: &RoleBinding) -> Vec<Invalid> {
        binding_errors(&binding.role_ref, binding.subjects.as_deref(), Reach::Namespace)
    }

    fn validate_update(new: &RoleBinding, old: &RoleBinding) -> Vec<Invalid> {
        other_role(&new.role_ref, &old.role_ref).into_iter().collect()
    }

    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::path_segment_errors(name)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(binding: &RoleBinding, now: Timestamp) -> Vec<Value> {
        row(&binding.metadata, &binding.role_ref, binding.subjects.as_deref().unwrap_or_default(), now)
    }
}

impl Rules for ClusterRoleBindingRules {
    type Object = ClusterRoleBinding;
    const NAMES: Names =
        Names { plural: "clusterrolebindings", singular: "clusterrolebinding", short: &[], categories: &[] };
    const NAMESPACED: bool = false;
    const CREATE_ON_UPDATE: bool = true;

    fn default_fields(binding: &mut ClusterRoleBinding) {
        default_groups(&mut binding.role_ref, binding.subjects.as_mut());
    }

    fn validate(binding: &ClusterRoleBinding) -> Vec<Invalid> {
        binding_errors(&binding.role_ref, binding.subjects.as_deref(), Reach::Cluster)
    }

    fn validate_update(new: &ClusterRoleBinding, old: &ClusterRoleBinding) -> Vec<Invalid> {
        other_role(&new.role_ref, &old.role_ref).into_iter().collect()
    }

    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::path_segment_errors(name)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(binding: &ClusterRoleBinding, now: Timestamp) -> Vec<Value> {
        row(&binding.metadata, &binding.role_ref, binding.subjects.as_deref().unwrap_or_default(), now)
    }
}

fn default_groups(role: &mut RoleRef, subjects: Option<&mut Vec<Subject>>) {
    if role.api_group.as_deref().unwrap_or_default().is_empty() {
        role.api_group = Some(GROUP.into());
    }
    let named = |subject: &&mut Subject| matches!(subject.kind.as_str(), USER | GROUP_KIND);
    for subject in subjects.into_iter().flatten().filter(named) {
        if subject.api_group.as_deref().unwrap_or_default().is_empty() {
            subject.api_group = Some(GROUP.into());
        }
    }
}

fn binding_errors(role: &RoleRef, subjects: Option<&[Subject]>, reach: Reach) -> Vec<Invalid> {
    let kinds: &[&str] = match reach {
        Reach::Namespace => &["Role", "ClusterRole"],
        Reach::Cluster => &["ClusterRole"],
    };
    let mut errors: Vec<Invalid> =
        check::one_of("roleRef.apiGroup", role.api_group.as_deref().unwrap_or_default(), &[GROUP])
            .into_iter()
            .collect();
    errors.extend(check::one_of("roleRef.kind", &role.kind, kinds));
    errors.extend(match role.name.as_str() {
        "" => vec![Invalid::required("roleRef.name", "")],
        name => names::path_segment("roleRef.name", name),
    });
    for (index, subject) in subjects.unwrap_or_default().iter().enumerate() {
        errors.extend(subject_errors(&format!("subjects[{index}]"), subject, reach));
    }
    errors
}

fn subject_errors(at: &str, subject: &Subject, reach: Reach) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> =
        check::required(&format!("{at}.name"), Some(&subject.name)).into_iter().collect();
    let group = subject.api_group.as_deref().unwrap_or_default();
    match subject.kind.as_str() {
        SERVICE_ACCOUNT => {
            errors.extend(names::optional_subdomain(&format!("{at}.name"), Some(&subject.name)));
            errors.extend(check::one_of(&format!("{at}.apiGroup"), group, &[""]));
            let homeless = subject.namespace.as_deref().unwrap_or_default().is_empty();
            if reach == Reach::Cluster && homeless {
                errors.push(Invalid::required(format!("{at}.namespace"), ""));
            }
        }
        USER | GROUP_KIND => errors.extend(check::one_of(&format!("{at}.apiGroup"), group, &[GROUP])),
        other => {
            errors.extend(check::one_of(&format!("{at}.kind"), other, &[SERVICE_ACCOUNT, USER, GROUP_KIND]));
        }
    }
    errors
}

/// A binding keeps its role: whoever may bind one role must not thereby bind another. Upstream shows its own
/// spelling of the fields.
fn other_role(new: &RoleRef, old: &RoleRef) -> Option<Invalid> {
    let shown = json!({"APIGroup": new.api_group, "Kind": new.kind, "Name": new.name});
    (new != old).then(|| Invalid::invalid("roleRef", shown, "cannot change roleRef"))
}

fn row(meta: &ObjectMeta, role: &RoleRef, subjects: &[Subject], now: Timestamp) -> Vec<Value> {
    let listed = |kind: &str| {
        let of_kind = subjects.iter().filter(|subject| subject.kind == kind);
        let shown = of_kind.map(|subject| match &subject.namespace {
            _ if kind != SERVICE_ACCOUNT => subject.name.clone(),
            namespace => format!("{}/{}", namespace.as_deref().unwrap_or_default(), subject.name),
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };
    vec![
        meta.name.as_deref().unwrap_or_default().into(),
        format!("{}/{}", role.kind, role.name).into(),
        age::age(meta, now).into(),
        listed(USER),
        listed(GROUP_KIND),
        listed(SERVICE_ACCOUNT),
    ]
}
