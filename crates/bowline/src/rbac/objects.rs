//! Roles and bindings from rights.

use std::collections::{BTreeMap, BTreeSet};

use bowline_machinery::client::ACCOUNTS_NAMESPACE;
use bowline_roles::rights::Right;
use serde_json::{Value, json};

/// A rule of a role. Resources that are granted the same stand together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub group: String,
    pub resources: Vec<String>,
    /// Only objects of these names; all if empty.
    pub names: Vec<String>,
    pub verbs: Vec<String>,
}

impl Rule {
    pub fn new(group: &str, resource: &str, verbs: &[&str]) -> Self {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        Self { group: group.into(), resources: vec![resource.into()], names: Vec::new(), verbs }
    }

    pub fn only(self, name: &str) -> Self {
        Self { names: vec![name.into()], ..self }
    }
}

/// What one program gets.
#[derive(Debug, Clone)]
pub struct Grant {
    pub program: &'static str,
    /// In all namespaces.
    pub cluster: Vec<Rule>,
    /// In the program's own.
    pub own: Vec<Rule>,
    /// Where the accounts of controllers are, which may be another namespace than the program's own.
    pub accounts: Vec<Rule>,
}

impl Grant {
    pub fn new(program: &'static str, cluster: impl Iterator<Item = Right>, own: Vec<Rule>) -> Self {
        Self { program, cluster: rules(cluster), own, accounts: Vec::new() }
    }
}

/// Who gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// Of the program's name; it is made as well.
    ServiceAccount,
    User(String),
}

/// The union of rights.
pub fn rules(rights: impl Iterator<Item = Right>) -> Vec<Rule> {
    let mut verbs: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for right in rights {
        verbs.entry((right.group, right.resource)).or_default().insert(right.verb);
    }
    let mut together: BTreeMap<(&str, BTreeSet<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in verbs {
        together.entry((group, verbs)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources): ((&str, BTreeSet<&str>), Vec<String>)| Rule {
        group: group.to_owned(),
        resources,
        names: Vec::new(),
        verbs: verbs.into_iter().map(str::to_owned).collect(),
    };
    let mut rules: Vec<Rule> = together.into_iter().map(rule).collect();
    rules.sort_by(|a, b| (&a.group, &a.resources).cmp(&(&b.group, &b.resources)));
    rules
}

/// The account, the roles and their bindings.
pub fn grant_objects(grant: &Grant, namespace: &str, holder: &Holder) -> Vec<Value> {
    let name = format!("bowline:{}", grant.program);
    let (subject, account) = match holder {
        Holder::User(user) => {
            (json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}), None)
        }
        Holder::ServiceAccount => (
            json!({"kind": "ServiceAccount", "name": grant.program, "namespace": namespace}),
            Some(json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": grant.program, "namespace": namespace}})),
        ),
    };
    let object = |kind: &str, namespace: Option<&str>| {
        let metadata = match namespace {
            None => json!({"name": name}),
            Some(namespace) => json!({"name": name, "namespace": namespace}),
        };
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata})
    };
    let role = |kind: &str, namespace: Option<&str>, rules: &[Rule]| {
        let mut role = object(kind, namespace);
        role["rules"] = rules.iter().map(value).collect();
        role
    };
    let binding = |kind: &str, role: &str, namespace: Option<&str>| {
        let mut binding = object(kind, namespace);
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name});
        binding["subjects"] = json!([subject]);
        binding
    };
    let mut namespaced = BTreeMap::from([(namespace, grant.own.clone())]);
    if !grant.accounts.is_empty() {
        namespaced.entry(ACCOUNTS_NAMESPACE).or_default().extend(grant.accounts.clone());
    }
    let everywhere =
        [role("ClusterRole", None, &grant.cluster), binding("ClusterRoleBinding", "ClusterRole", None)];
    let namespaced = namespaced.into_iter().flat_map(|(namespace, rules)| {
        let namespace = Some(namespace);
        [role("Role", namespace, &rules), binding("RoleBinding", "Role", namespace)]
    });
    account.into_iter().chain(everywhere).chain(namespaced).collect()
}

fn value(rule: &Rule) -> Value {
    let mut value = json!({"apiGroups": [rule.group], "resources": rule.resources, "verbs": rule.verbs});
    if !rule.names.is_empty() {
        value["resourceNames"] = json!(rule.names);
    }
    value
}
