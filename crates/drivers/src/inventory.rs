//! What a pool holds, read without a driver: for those who know who should have it.

use std::path::Path;

use bowline_host::Host;

use crate::error::{During, VolumeError};
use crate::id::VolumeId;
use crate::local::{self, unused as unused_image};
use crate::serve::RunError;
use crate::share::{self, unused as unused_directory};

const VOLUMES: &str = "volumes";
const SHARES: &str = "shares";

/// One volume of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    pub driver: &'static str,
    /// The id by which callers know it.
    pub id: String,
    /// The name under which it was created.
    pub name: String,
    /// Whether it holds nothing: no workload ever had it, or an empty directory is all that is left.
    pub unused: bool,
}

/// Volumes of both drivers in a pool that callers created, in the order of their ids. Inline volumes, and those that are
/// being deleted or whose record is spoilt, are their driver's business.
pub async fn list(host: &Host, pool: &Path) -> Result<Vec<Stored>, RunError> {
    let found = async {
        let mut all = Vec::new();
        for id in ids(host, &pool.join(VOLUMES)).await? {
            let found = unused_image(host, &pool.join(VOLUMES).join(id.as_str())).await;
            all.extend(readable(&id, found).map(|(name, unused)| stored(local::NAME, &id, name, unused)));
        }
        for id in ids(host, &pool.join(SHARES)).await? {
            let found = unused_directory(host, &pool.join(SHARES).join(id.as_str())).await;
            all.extend(readable(&id, found).map(|(name, unused)| stored(share::NAME, &id, name, unused)));
        }
        Ok(all)
    };
    found.await.map_err(RunError::Pool)
}

/// A volume that cannot be looked at is no reason to leave out the others.
fn readable(id: &VolumeId, found: Result<Option<(String, bool)>, VolumeError>) -> Option<(String, bool)> {
    found.unwrap_or_else(|error| {
        tracing::warn!(volume = %id, %error, "volume cannot be read; it is left out of the list of orphans");
        None
    })
}

fn stored(driver: &'static str, id: &VolumeId, name: String, unused: bool) -> Stored {
    Stored { driver, id: id.to_string(), name, unused }
}

async fn ids(host: &Host, folder: &Path) -> Result<Vec<VolumeId>, VolumeError> {
    let names = host.disk.list(folder).await.during("list pool")?;
    Ok(names.iter().filter_map(|name| VolumeId::parse(name)).collect())
}
