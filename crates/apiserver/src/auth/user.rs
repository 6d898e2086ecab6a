//! Somebody who was recognised.

use std::collections::BTreeMap;

/// In the group of those who may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of kubelets.
pub const NODES: &str = "system:nodes";
/// In everybody's group but one: that of those who showed nothing.
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";
/// The server itself, and what runs in its process.
const SERVER: &str = "system:apiserver";
/// What follows is the name of a node.
const NODE_PREFIX: &str = "system:node:";
/// What follows is the namespace and the name of a service account.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts; with a colon and a namespace that of one namespace.
const ACCOUNTS: &str = "system:serviceaccounts";

/// A name, its groups, and what else is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The server itself: may do everything.
    pub fn server() -> Self {
        Self { name: SERVER.into(), groups: vec![MASTERS.into()], ..Self::default() }
    }

    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// Somebody who showed nothing.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self { name: account_name(namespace, name), groups: account_groups(namespace), ..Self::default() }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// May do everything, whatever the rules say.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Adds the group of those who were recognised, unless the credentials said something about it.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }

    /// `Some` for kubelets; the name of the node is empty if it cannot be told.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.is_in(NODES))
    }
}

/// The node that a user name stands for.
pub fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE_PREFIX)?;
    bowline_api::name::subdomain_errors(name).is_empty().then_some(name)
}

/// The user name of a service account.
pub fn account_name(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT_PREFIX}{namespace}:{name}")
}

pub fn account_groups(namespace: &str) -> Vec<String> {
    vec![ACCOUNTS.into(), format!("{ACCOUNTS}:{namespace}")]
}

/// Namespace and name of the service account that a user name stands for.
pub fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    let valid = bowline_api::name::label_errors(namespace).is_empty()
        && bowline_api::name::subdomain_errors(name).is_empty();
    valid.then_some((namespace, name))
}
