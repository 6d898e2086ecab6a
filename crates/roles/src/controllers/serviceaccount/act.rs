//! One write: the account.

use bowline_api::{Meta, ServiceAccount};
use bowline_machinery::EffectError;

use super::model::{Action, NAME, Observed};
use super::role::Accounts;

impl Accounts {
    pub(super) async fn perform(&self, action: Action, seen: &Observed) -> Result<(), EffectError> {
        match action {
            // One that was created meanwhile is a conflict: the runner backs off until the watch brings it.
            Action::Create => self.effects.create(&account(seen.namespace.name())).await.map(drop),
        }
    }
}

pub(super) fn account(namespace: &str) -> ServiceAccount {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(NAME.into());
    account.metadata.namespace = Some(namespace.into());
    account
}
