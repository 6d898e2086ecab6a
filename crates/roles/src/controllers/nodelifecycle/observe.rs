//! The cache of nodes is all there is to see: the write is guarded by the resourceVersion.

use super::model::Observed;
use super::role::Lifecycle;

impl Lifecycle {
    pub(super) fn see(&self, name: &str) -> Option<Observed> {
        self.nodes.named(name).map(|node| Observed { node })
    }
}
