//! One write: the account.

use bowline_api::{Meta, ServiceAccount};
use bowline_machinery::{EffectError, Effects};

use super::world::{Action, Observed};

/// The account that pods run as unless they name another.
pub(super) const NAME: &str = "default";

pub(super) async fn act(effects: &Effects, action: Action, seen: &Observed) -> Result<(), EffectError> {
    match action {
        // Somebody else's is as good; the watch brings it.
        Action::Create => match effects.create(&account(seen.namespace.name())).await {
            Err(error) if !error.conflict() => Err(error),
            _ => Ok(()),
        },
    }
}

pub(super) fn account(namespace: &str) -> ServiceAccount {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(NAME.into());
    account.metadata.namespace = Some(namespace.into());
    account
}
