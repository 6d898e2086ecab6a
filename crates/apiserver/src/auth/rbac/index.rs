//! Roles and bindings, read once and kept by whom they are for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bowline_api::ObjectKey;
use serde::Deserialize;

use super::rule::{Rule, or_none};
use crate::auth::follow::Index;
use crate::auth::user::{User, account_name};
use crate::store::Stored;

pub const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const TABLES: [&str; 4] = [
    CLUSTER_ROLES,
    "roles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];
/// Positions in the list above.
const CLUSTER_ROLE: usize = 0;
const ROLE: usize = 1;

/// Cluster roles and bindings have an empty namespace in their keys, so one map holds both kinds.
#[derive(Default)]
pub struct Roles {
    roles: BTreeMap<ObjectKey, Arc<[Rule]>>,
    bindings: BTreeMap<ObjectKey, Binding>,
    /// Bindings by whom they name.
    by_subject: HashMap<Subject, BTreeSet<ObjectKey>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

/// Somebody's right to a role.
struct Binding {
    role: RoleRef,
    /// Whom it names, and how people are told of them.
    subjects: Vec<(Subject, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct RoleRef {
    #[serde(rename = "apiGroup")]
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredRole {
    #[serde(deserialize_with = "or_none")]
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredBinding {
    role_ref: RoleRef,
    #[serde(deserialize_with = "or_none")]
    subjects: Vec<StoredSubject>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredSubject {
    kind: String,
    name: String,
    namespace: String,
}

/// Rules of one binding, and how people are told of it.
pub struct Grant<'a> {
    pub rules: &'a [Rule],
    key: &'a ObjectKey,
    binding: &'a Binding,
    subject: &'a str,
}

impl Grant<'_> {
    /// `ClusterRoleBinding "x" of ClusterRole "y" to User "z"`.
    pub fn describe(&self) -> String {
        let (kind, name) = match self.key.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.key.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.key.name)),
        };
        let RoleRef { kind: role, name: of, .. } = &self.binding.role;
        format!("{kind} {name:?} of {role} {of:?} to {}", self.subject)
    }
}

impl Roles {
    /// What a user is granted in the whole cluster and, if one is given, in a namespace. A binding to a role that does
    /// not exist is an error of its own; it takes nothing away from the others.
    pub fn grants<'a>(
        &'a self,
        user: &User,
        namespace: &str,
    ) -> impl Iterator<Item = Result<Grant<'a>, String>> + 'a {
        let groups = user.groups.iter().map(|group| Subject::Group(group.clone()));
        let subjects: Vec<Subject> =
            std::iter::once(Subject::User(user.name.clone())).chain(groups).collect();
        let of = |subject: &Subject| self.by_subject.get(subject);
        let keys: BTreeSet<&ObjectKey> = subjects.iter().filter_map(of).flatten().collect();
        let namespace = namespace.to_owned();
        let here = move |key: &&ObjectKey| key.namespace.is_empty() || key.namespace == namespace;
        keys.into_iter().filter(here).filter_map(move |key| {
            let binding = self.bindings.get(key)?;
            let named = binding.subjects.iter().find(|(subject, _)| subjects.contains(subject));
            let rules = self.rules_of(&binding.role, &key.namespace);
            Some(rules.map(|rules| Grant {
                rules,
                key,
                binding,
                subject: named.map_or("", |(_, text)| text),
            }))
        })
    }

    /// The rules of a role that a binding in a namespace refers to.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], String> {
        let (key, word) = match role.kind.as_str() {
            "ClusterRole" => (ObjectKey::cluster(&role.name), "clusterrole"),
            "Role" if !namespace.is_empty() => (ObjectKey::new(namespace, &role.name), "role"),
            other => return Err(format!("unsupported role reference kind: {other:?}")),
        };
        let found = self.roles.get(&key).map(AsRef::as_ref);
        found.ok_or_else(|| format!("{word}.rbac.authorization.k8s.io {:?} not found", role.name))
    }
}

impl Index for Roles {
    const TABLES: &'static [&'static str] = &TABLES;

    /// What cannot be read grants nothing: only what passed the rules of its kind is stored, so this is a defect.
    fn put(&mut self, table: usize, object: &Stored) {
        self.remove(table, &object.key);
        if matches!(table, CLUSTER_ROLE | ROLE) {
            let role: StoredRole = read(object);
            self.roles.insert(object.key.clone(), role.rules.into());
            return;
        }
        let stored: StoredBinding = read(object);
        let namespace = object.key.namespace.as_str();
        let subjects: Vec<(Subject, String)> =
            stored.subjects.into_iter().filter_map(|subject| named(subject, namespace)).collect();
        for (subject, _) in &subjects {
            self.by_subject.entry(subject.clone()).or_default().insert(object.key.clone());
        }
        self.bindings.insert(object.key.clone(), Binding { role: stored.role_ref, subjects });
    }

    fn remove(&mut self, table: usize, key: &ObjectKey) {
        if matches!(table, CLUSTER_ROLE | ROLE) {
            self.roles.remove(key);
            return;
        }
        for (subject, _) in self.bindings.remove(key).into_iter().flat_map(|binding| binding.subjects) {
            if let Some(keys) = self.by_subject.get_mut(&subject) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_subject.remove(&subject);
                }
            }
        }
    }
}

fn read<T: Default + for<'de> Deserialize<'de>>(object: &Stored) -> T {
    serde_json::from_slice(&object.json).unwrap_or_else(|error| {
        tracing::error!(%error, object = %object.key.name, "a stored role or binding cannot be read and grants nothing");
        T::default()
    })
}

/// A service account is a user; in a binding with a namespace it may leave out its own.
fn named(subject: StoredSubject, namespace: &str) -> Option<(Subject, String)> {
    let StoredSubject { kind, name, namespace: own } = subject;
    match kind.as_str() {
        "User" => Some((Subject::User(name.clone()), format!("User {name:?}"))),
        "Group" => Some((Subject::Group(name.clone()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let within = if own.is_empty() { namespace } else { &own };
            let shown = format!("ServiceAccount {:?}", format!("{name}/{within}"));
            (!within.is_empty()).then(|| (Subject::User(account_name(within, &name)), shown))
        }
        _ => None,
    }
}
