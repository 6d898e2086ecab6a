//! One process per pool: two would each trust what it remembers of records that the other changes.

use std::io;
use std::path::Path;

use bowline_host::Host;
use bowline_host::disk::Lock;

use crate::error::{During, VolumeError};
use crate::shelf::label::LABEL;
use crate::shelf::{DIR_MODE, lacks_labels};

const LOCK: &str = "lock";
/// What the lock's own label says; setting it shows whether images can be labelled.
const OURS: &[u8] = b"pool";

/// Takes the pool for as long as the lock lives.
pub async fn claim(host: &Host, root: &Path) -> Result<Lock, VolumeError> {
    host.disk.create_dir_all(root, DIR_MODE).await.during("create pool directory")?;
    let lock = take(host, root).await?;
    if let Err(error) = host.disk.set_label(&root.join(LOCK), LABEL, OURS).await
        && lacks_labels(&error)
    {
        tracing::warn!(pool = %root.display(), %error, "images cannot be labelled here: a lost record is a lost volume");
    }
    Ok(lock)
}

/// Takes an existing pool, to repair it.
pub async fn take(host: &Host, root: &Path) -> Result<Lock, VolumeError> {
    match host.disk.lock(&root.join(LOCK)).await {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(VolumeError::PoolTaken { pool: root.to_owned() })
        }
        taken => taken.during("lock the pool"),
    }
}
