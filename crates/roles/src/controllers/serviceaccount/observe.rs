//! The two caches are all there is to see.

use bowline_api::ObjectKey;

use super::model::{NAME, Observed};
use super::role::Accounts;

impl Accounts {
    pub(super) fn see(&self, name: &str) -> Option<Observed> {
        let namespace = self.namespaces.named(name)?;
        Some(Observed { namespace, account: self.accounts.get(&ObjectKey::new(name, NAME)).is_some() })
    }
}
