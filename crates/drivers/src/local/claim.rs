//! Takes a pool for this driver.

use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::Lock;

use super::config::LocalConfig;
use crate::error::VolumeError;
use crate::pool_lock::{self, LOCAL_LOCK};
use crate::shelf::label::LABEL;
use crate::shelf::lacks_labels;

/// What the lock's own label says; setting it shows whether images can be labelled.
const OURS: &[u8] = b"pool";

/// Takes the pool for as long as the lock lives.
pub async fn claim(host: &Host, config: &LocalConfig) -> Result<Lock, VolumeError> {
    let root = &config.pool;
    let lock = pool_lock::open(host, root, LOCAL_LOCK, config.installation.as_deref()).await?;
    if let Err(error) = host.disk.set_label(&root.join(LOCAL_LOCK), LABEL, OURS).await
        && lacks_labels(&error)
    {
        tracing::warn!(pool = %root.display(), %error, "images cannot be labelled here: a lost record is a lost volume");
    }
    Ok(lock)
}

/// Takes an existing pool, to repair it.
pub async fn take(host: &Host, root: &Path) -> Result<Lock, VolumeError> {
    pool_lock::take(host, root, LOCAL_LOCK).await
}
