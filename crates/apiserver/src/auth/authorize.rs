//! May somebody do something? The first authorizer that says yes decides; nobody says no for the others.

use std::str::FromStr;
use std::sync::Arc;

use super::attributes::{Attributes, ResourceAttributes};
use super::node::NodeAuthorizer;
use super::rbac::Rbac;
use super::user::User;
use crate::store::Store;

/// `--authorization-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    AlwaysAllow,
    AlwaysDeny,
    Node,
    Rbac,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "AlwaysAllow" => Ok(Self::AlwaysAllow),
            "AlwaysDeny" => Ok(Self::AlwaysDeny),
            "Node" => Ok(Self::Node),
            "RBAC" => Ok(Self::Rbac),
            other => Err(format!(
                "authorization mode `{other}` is not known: use AlwaysAllow, AlwaysDeny, Node or RBAC"
            )),
        }
    }
}

/// An answer, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

impl Decision {
    pub fn allow(reason: impl Into<String>) -> Self {
        Self { allowed: true, reason: reason.into() }
    }

    /// Somebody else may still allow it.
    pub fn no_opinion(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: reason.into() }
    }
}

/// All modes in their order.
pub struct Authorizer {
    modes: Vec<Mode>,
    node: NodeAuthorizer,
    rbac: Arc<Rbac>,
}

impl Authorizer {
    pub fn new(modes: Vec<Mode>, store: &Store) -> Self {
        Self { modes, node: NodeAuthorizer::new(store), rbac: Arc::new(Rbac::new(store)) }
    }

    pub fn rbac(&self) -> &Rbac {
        &self.rbac
    }

    pub fn modes(&self) -> &[Mode] {
        &self.modes
    }

    pub fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        if user.is_master() {
            return Decision::allow("");
        }
        let mut reasons: Vec<String> = Vec::new();
        for mode in &self.modes {
            let decision = match mode {
                Mode::AlwaysAllow => Decision::allow(""),
                Mode::AlwaysDeny => Decision::no_opinion("Everything is forbidden."),
                Mode::Node => self.node.decide(user, asked),
                Mode::Rbac => self.rbac.decide(user, asked),
            };
            if decision.allowed {
                return decision;
            }
            reasons.push(decision.reason);
        }
        reasons.retain(|reason| !reason.is_empty());
        Decision::no_opinion(reasons.join("\n"))
    }

    pub fn allows(&self, user: &User, asked: ResourceAttributes) -> bool {
        self.decide(user, &Attributes::Resource(asked)).allowed
    }
}
