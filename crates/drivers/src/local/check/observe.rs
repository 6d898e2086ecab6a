//! Gathers the facts. Nothing is changed, not even a lock taken: what a running driver does meanwhile may show.

use std::path::{Path, PathBuf};

use bowline_host::Host;
use futures::stream::{self, StreamExt};

use super::CheckError;
use super::facts::{Facts, Thing};
use crate::error::{During, VolumeError};
use crate::id::{Id, Kind};
use crate::local::pool::{GROUPS, SNAPSHOTS, VOLUMES};
use crate::shelf::{RECORD, Record, found};

/// Directories looked at at the same time.
const LOOKERS: usize = 32;

pub async fn facts(host: &Host, pool: &Path) -> Result<Facts, CheckError> {
    let root = require_pool(host, pool).await?;
    gather(host, root).await.map_err(|source| CheckError::Failed { pool: pool.to_owned(), source })
}

/// The pool's path without symbolic links. A mistyped path is no pool without findings.
pub async fn require_pool(host: &Host, pool: &Path) -> Result<PathBuf, CheckError> {
    let there = host.disk.kind(&pool.join(VOLUMES)).await.ok().flatten().is_some();
    let root = host.disk.canonical(pool).await.ok().filter(|_| there);
    root.ok_or_else(|| CheckError::NoPool(pool.to_owned()))
}

async fn gather(host: &Host, pool: PathBuf) -> Result<Facts, VolumeError> {
    let mut strangers = Vec::new();
    Ok(Facts {
        space: host.disk.space(&pool).await.during("measure pool")?,
        volumes: things(host, &pool.join(VOLUMES), &mut strangers).await?,
        snapshots: things(host, &pool.join(SNAPSHOTS), &mut strangers).await?,
        groups: things(host, &pool.join(GROUPS), &mut strangers).await?,
        loops: host.kernel.loops().await.during("list loop devices")?,
        mounts: host.kernel.mounts().await.during("read mount table")?,
        strangers,
        pool,
    })
}

async fn things<K: Kind, R: Record>(
    host: &Host,
    root: &Path,
    strangers: &mut Vec<PathBuf>,
) -> Result<Vec<Thing<K, R>>, VolumeError> {
    let mut ids = Vec::new();
    // Files with a dot are probes of the driver, made and removed all the time.
    for name in
        host.disk.list(root).await.during("list pool")?.into_iter().filter(|name| !name.starts_with('.'))
    {
        match Id::parse(&name) {
            Some(id) => ids.push(id),
            None => strangers.push(root.join(name)),
        }
    }
    let look = async |id: Id<K>| {
        let dir = root.join(id.as_str());
        let found = found::look(&*host.disk, &dir).await.map_err(|error| error.to_string());
        let unfinished = host.disk.unfinished(&dir).await.unwrap_or_default();
        let known = |name: &String| name == RECORD || R::IMAGE.is_some_and(|image| name == image);
        let others = host.disk.list(&dir).await.unwrap_or_default().into_iter().filter(|name| !known(name));
        Thing { id, dir, found, unfinished, others: others.collect() }
    };
    Ok(stream::iter(ids).map(look).buffered(LOOKERS).collect().await)
}
