//! The cache of volumes is all there is to see: removal is guarded by the resourceVersion.

use super::model::Observed;
use super::role::Protection;

impl Protection {
    pub(super) fn see(&self, name: &str) -> Option<Observed> {
        self.volumes.named(name).map(|volume| Observed { volume })
    }
}
