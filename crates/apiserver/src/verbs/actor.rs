//! On whose behalf a write happens, and under which name it is recorded.

use std::sync::Arc;

use super::Call;
use super::options::{MANAGER_MAX, is_print};
use crate::admission::AdmissionNotes;
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
    /// Of the request behind the write.
    pub notes: Arc<AdmissionNotes>,
}

impl Actor {
    /// The server on its own behalf.
    pub fn server() -> Self {
        let (user, notes) = (Arc::new(User::server()), Arc::default());
        Self { user, manager: SERVER_MANAGER.into(), dry_run: false, notes }
    }

    pub fn of(call: &Call) -> Result<Self, Status> {
        Ok(Self { dry_run: call.query.dry_run()?, ..Self::of_delete(call, false) })
    }

    /// A deletion says in its own options whether it is to change anything.
    ///
    /// Clients that give no name to their fields are known by the first part of their user agent.
    pub fn of_delete(call: &Call, dry_run: bool) -> Self {
        let named = call.query.get("fieldManager");
        let manager = if named.is_empty() { agent(&call.user_agent) } else { named.to_owned() };
        Self { user: call.user.clone(), manager, dry_run, notes: call.notes.clone() }
    }
}

/// As much of it as a name may have.
fn agent(user_agent: &str) -> String {
    let mut name = String::new();
    let first = user_agent.split('/').next().unwrap_or_default();
    for character in first.chars().filter(|character| is_print(*character)) {
        if name.len() + character.len_utf8() > MANAGER_MAX {
            break;
        }
        name.push(character);
    }
    name
}
