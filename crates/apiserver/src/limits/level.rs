//! Who competes with whom, in the words of upstream's priority levels and flow schemas.

use crate::auth::User;

const NODES: &str = "system:nodes";
const ACCOUNTS: &str = "system:serviceaccounts";
const ACCOUNT: &str = "system:serviceaccount:";
const SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Administrators, and what runs in this process: never refused.
    Exempt,
    /// What the cluster needs to work.
    System,
    /// All others.
    Workload,
}

impl Level {
    pub fn of(user: &User) -> Self {
        if user.is_master() {
            return Self::Exempt;
        }
        let by_name = [CONTROLLER_MANAGER, SCHEDULER].contains(&user.name.as_str());
        if by_name || user.is_in(NODES) || user.is_in(SYSTEM_ACCOUNTS) {
            return Self::System;
        }
        Self::Workload
    }

    /// Who shares the seats of one user. Accounts are free to have for who may create them, so all of a namespace are
    /// one tenant; those that the cluster needs stand each for itself.
    pub fn tenant(self, user: &User) -> &str {
        match (self, user.name.strip_prefix(ACCOUNT)) {
            (Self::Workload, Some(account)) if user.is_in(ACCOUNTS) => {
                let name = account.find(':').map_or(account.len(), |end| end);
                user.name.get(..ACCOUNT.len() + name).unwrap_or(&user.name)
            }
            _ => &user.name,
        }
    }

    /// Of few values, whatever users are called.
    pub fn flow_schema(self, user: &User) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::System if user.is_in(NODES) => "system-nodes",
            Self::System if user.name == CONTROLLER_MANAGER => "kube-controller-manager",
            Self::System if user.name == SCHEDULER => "kube-scheduler",
            Self::System => "kube-system-service-accounts",
            Self::Workload if user.is_in(ACCOUNTS) => "service-accounts",
            Self::Workload => "global-default",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::System => "system",
            Self::Workload => "workload-low",
        }
    }
}
