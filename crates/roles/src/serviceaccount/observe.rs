//! The two caches are all there is to see.

use bowline_api::{Namespace, ObjectKey, ServiceAccount};
use bowline_machinery::Cache;

use super::act::NAME;
use super::world::Observed;

pub(super) fn observe(
    namespaces: &Cache<Namespace>,
    accounts: &Cache<ServiceAccount>,
    name: &str,
) -> Option<Observed> {
    let namespace = namespaces.named(name)?;
    Some(Observed { namespace, account: accounts.get(&ObjectKey::new(name, NAME)).is_some() })
}
