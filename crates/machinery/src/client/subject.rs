//! On whose behalf requests are made, in RBAC's terms.

use std::fmt;

use super::{Client, ClientError};

/// A user that the API server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// By its whole name, such as `system:kube-scheduler`.
    User(&'static str),
    /// Of the namespace kube-system.
    ServiceAccount(&'static str),
    /// The kubelet of a node: `system:node:NAME` in `system:nodes`.
    Node(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::ServiceAccount(name) => {
                write!(f, "system:serviceaccount:{}:{name}", super::account::NAMESPACE)
            }
            Self::Node(name) => write!(f, "system:node:{name}"),
        }
    }
}

/// Clients that act as other subjects than the process itself.
pub trait Clients: Send + Sync {
    fn client(&self, subject: &Subject) -> Result<Client, ClientError>;
}
