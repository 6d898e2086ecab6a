//! Role-based access: roles say what, bindings say who.
//!
//! `rule` is one rule, `index` keeps what is stored ready for questions, `escalation` keeps people from granting what
//! they do not have, `bootstrap` brings upstream's default roles, `aggregate` fills roles that are made of others.

mod aggregate;
mod bootstrap;
mod escalation;
mod index;
mod rule;

use super::attributes::Attributes;
use super::authorize::Decision;
use super::follow::Follower;
use super::user::User;
use crate::store::Store;

pub use aggregate::{aggregate, follow_aggregation};
pub use bootstrap::{bootstrap, node_rules};
pub use escalation::EscalationGuard;
pub use index::RoleRef;
pub use rule::{Rule, quoted};

use index::Roles;

/// The authorizer.
pub struct Rbac {
    roles: Follower<Roles>,
}

/// All that a user is granted, and what could not be resolved.
pub struct Granted {
    pub rules: Vec<Rule>,
    pub errors: Vec<String>,
}

impl Granted {
    /// The errors on one line; empty if there are none.
    pub fn error(&self) -> String {
        combined(&self.errors)
    }
}

impl Rbac {
    pub fn new(store: &Store) -> Self {
        Self { roles: Follower::new(store) }
    }

    pub fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        let namespace = match asked {
            Attributes::Resource(asked) => asked.namespace.as_str(),
            Attributes::Path { .. } => "",
        };
        let roles = self.roles.current();
        let mut errors = Vec::new();
        for grant in roles.grants(user, namespace) {
            match grant {
                Ok(grant) if grant.rules.iter().any(|rule| rule.allows(asked)) => {
                    return Decision::allow(format!("RBAC: allowed by {}", grant.describe()));
                }
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        let unresolved = !errors.is_empty();
        Decision::no_opinion(if unresolved { format!("RBAC: {}", combined(&errors)) } else { String::new() })
    }

    /// Everything that a user may do in a namespace, the whole cluster included.
    pub fn granted(&self, user: &User, namespace: &str) -> Granted {
        let roles = self.roles.current();
        let mut granted = Granted { rules: Vec::new(), errors: Vec::new() };
        for grant in roles.grants(user, namespace) {
            match grant {
                Ok(grant) => granted.rules.extend_from_slice(grant.rules),
                Err(error) => granted.errors.push(error),
            }
        }
        granted
    }

    /// The rules of a role that a binding in a namespace would refer to.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Option<Vec<Rule>> {
        self.roles.current().rules_of(role, namespace).map(<[Rule]>::to_vec).ok()
    }
}

/// Several errors as upstream shows them together.
fn combined(errors: &[String]) -> String {
    match errors {
        [] => String::new(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
