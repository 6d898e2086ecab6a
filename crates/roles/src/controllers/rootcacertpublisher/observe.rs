//! The two caches are all there is to see.

use bowline_api::ObjectKey;

use super::model::{NAME, Observed};
use super::role::Publisher;

impl Publisher {
    pub(super) fn see(&self, name: &str) -> Option<Observed> {
        let namespace = self.namespaces.named(name)?;
        let map = self.maps.get(&ObjectKey::new(name, NAME));
        Some(Observed { namespace, map, root: self.root.clone() })
    }
}
