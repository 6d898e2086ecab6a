//! On whose behalf a write happens, and under which name it is recorded.

use std::sync::Arc;

use super::Call;
use crate::auth::User;
use crate::status::Status;

/// What the server itself signs its writes with.
const SERVER_MANAGER: &str = "kube-apiserver";

#[derive(Debug, Clone)]
pub struct Actor {
    pub user: Arc<User>,
    /// Who sets the fields, in the words of `managedFields`.
    pub manager: String,
    /// Nothing is stored.
    pub dry_run: bool,
}

impl Actor {
    /// The server on its own behalf.
    pub fn server() -> Self {
        Self { user: Arc::new(User::server()), manager: SERVER_MANAGER.into(), dry_run: false }
    }

    pub fn of(call: &Call) -> Result<Self, Status> {
        Ok(Self { dry_run: call.query.dry_run()?, ..Self::of_delete(call, false) })
    }

    /// A deletion says in its own options whether it is to change anything.
    ///
    /// Clients that give no name to their fields are known by the first part of their user agent.
    pub fn of_delete(call: &Call, dry_run: bool) -> Self {
        let named = call.query.get("fieldManager");
        let agent = call.user_agent.split('/').next().unwrap_or_default();
        let manager = if named.is_empty() { agent } else { named };
        Self { user: call.user.clone(), manager: manager.into(), dry_run }
    }
}
