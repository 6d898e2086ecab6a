//! The two caches are all there is to see.

use std::sync::Arc;

use bowline_api::{ConfigMap, Namespace, ObjectKey};
use bowline_machinery::Cache;

use super::act::NAME;
use super::world::Observed;

pub(super) fn observe(
    namespaces: &Cache<Namespace>,
    maps: &Cache<ConfigMap>,
    root: &Arc<str>,
    name: &str,
) -> Option<Observed> {
    let namespace = namespaces.named(name)?;
    Some(Observed { namespace, map: maps.get(&ObjectKey::new(name, NAME)), root: root.clone() })
}
