//! The cache of volumes is all there is to see: removal is guarded by the resourceVersion.

use bowline_api::PersistentVolume;
use bowline_machinery::Cache;

use super::world::Observed;

pub(super) fn observe(volumes: &Cache<PersistentVolume>, name: &str) -> Option<Observed> {
    volumes.named(name).map(|volume| Observed { volume })
}
