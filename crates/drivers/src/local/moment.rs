//! Copies of volumes at one moment, while workloads use them.
//!
//! A mounted filesystem is frozen: everything written is on the device, and who writes on waits. It is thawed
//! as soon as the copies are there, whatever becomes of them, and by the next process if this one dies
//! (`freezing::thaw_all`). Where the pool shares blocks (xfs, btrfs), that takes milliseconds. **Where it cannot (ext4),
//! the workload waits for as long as copying the written part of the image takes**; the log says how long.
//!
//! A bare device cannot be frozen. A copy of one that is in use counts only if it is of one moment all the same:
//! because blocks were shared, which is one step, or because nobody wrote while it was made. It then holds
//! what a power cut at that moment would have left (crash-consistent). Otherwise the call fails, as half of one
//! moment and half of another is no snapshot. Several volumes are of one moment only if none of them moved.

use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use bowline_host::kernel::{KernelError, Writes};
use futures::{FutureExt, StreamExt, stream};

use self::freezing::{freeze, shown, thaw};
use super::damage;
use super::driver::Driver;
use crate::error::{During, VolumeError};
use crate::id::VolumeId;

pub mod freezing;

type Result<T> = std::result::Result<T, VolumeError>;

/// Most images copied at a time.
const COPIES_MAX: usize = 8;
/// What the kernel says of a filesystem that is frozen already.
const EBUSY: i32 = 16;

/// One image to copy.
pub struct Copy {
    pub volume: VolumeId,
    pub to: PathBuf,
}

/// Copies the images of all volumes as they are at one moment, and says which: seconds since 1970.
///
/// The caller holds the volumes, so that they are neither staged nor unstaged meanwhile.
pub async fn copy(driver: &Driver, copies: &[Copy]) -> Result<u64> {
    for Copy { volume, .. } in copies {
        // A copy of an image that lost bytes would pass for the whole volume.
        damage::refuse(driver, volume, &*driver.pool.ready(volume)?).await?;
    }
    let mut still = Still::default();
    let copied = async {
        still.hold(driver, copies).await?;
        driver.point("local.cut.frozen");
        let now = seconds(driver);
        transfer(driver, copies, &still.watched).await?;
        driver.point("local.cut.before-thaw");
        Ok(now)
    };
    // Even a defect of ours must not leave a workload hanging.
    let copied = AssertUnwindSafe(copied).catch_unwind().await.unwrap_or(Err(VolumeError::Lost));
    still.thaw(driver).await?;
    driver.point("local.cut.thawed");
    copied
}

pub fn seconds(driver: &Driver) -> u64 {
    // A clock before 1970 is not set at all.
    u64::try_from(driver.host.clock.now().as_second()).unwrap_or_default()
}

/// Volumes that stand still, or are watched for whether they do.
#[derive(Default)]
struct Still {
    frozen: Vec<Vec<PathBuf>>,
    since: i64,
    watched: Vec<(VolumeId, PathBuf)>,
}

impl Still {
    async fn hold(&mut self, driver: &Driver, copies: &[Copy]) -> Result<()> {
        let kernel = &driver.host.kernel;
        let table = kernel.mounts().await.during("read mount table")?;
        self.since = driver.host.clock.now().as_millisecond();
        for Copy { volume, .. } in copies {
            let device = kernel.loop_of(&driver.pool.image(volume)).await.during("find loop device")?;
            let Some(device) = device else { continue };
            let paths = shown(&device, &table);
            match paths.first() {
                Some(path) => {
                    driver.point("local.cut.before-freeze");
                    freeze(driver, path).await.map_err(|error| refused(volume, path, error))?;
                    self.frozen.push(paths);
                }
                None => {
                    driver.point("local.cut.before-flush");
                    kernel.flush(&device).await.during("flush device")?;
                    self.watched.push((volume.clone(), device));
                }
            }
        }
        Ok(())
    }

    /// Thaws at every path, as the one it was frozen at may have been unmounted by force.
    async fn thaw(self, driver: &Driver) -> Result<()> {
        let mut done = Ok(());
        for path in self.frozen.iter().flatten() {
            if let Err(error) = thaw(&driver.host, path).await {
                done = Err(error).during("thaw filesystem");
            }
        }
        if !self.frozen.is_empty() {
            let milliseconds = driver.host.clock.now().as_millisecond() - self.since;
            tracing::info!(filesystems = self.frozen.len(), milliseconds, "frozen for a copy");
        }
        done
    }
}

fn refused(volume: &VolumeId, path: &Path, error: KernelError) -> VolumeError {
    match error.errno {
        Some(EBUSY) => VolumeError::Frozen { id: volume.clone(), path: path.to_owned() },
        _ => VolumeError::Kernel { what: "freeze filesystem", source: error },
    }
}

/// Copies, and proves that nothing moved meanwhile.
async fn transfer(driver: &Driver, copies: &[Copy], watched: &[(VolumeId, PathBuf)]) -> Result<()> {
    let (disk, pool) = (&driver.host.disk, &driver.pool);
    if let ([copy], [_]) = (copies, watched) {
        match disk.reflink(&pool.image(&copy.volume), &copy.to).await {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            done => return done.during("copy image"),
        }
    }
    let before = looks(driver, watched).await?;
    if let Some((id, _)) = before.iter().find(|(_, writes)| writes.under_way > 0) {
        return Err(VolumeError::Moving { id: id.clone() });
    }
    let transfer = |copy: &Copy| {
        let (disk, from, to) = (disk.clone(), pool.image(&copy.volume), copy.to.clone());
        async move { disk.copy(&from, &to).await }
    };
    let transfers: Vec<_> = copies.iter().map(transfer).collect();
    // All of them end before the outcome of any counts: none writes on after it was given up.
    let done: Vec<_> = stream::iter(transfers).buffer_unordered(COPIES_MAX).collect().await;
    done.into_iter().collect::<io::Result<()>>().during("copy image")?;
    let after = looks(driver, watched).await?;
    match before.iter().zip(&after).find(|(before, after)| before.1 != after.1) {
        Some(((id, _), _)) => Err(VolumeError::Moving { id: id.clone() }),
        None => Ok(()),
    }
}

async fn looks(driver: &Driver, watched: &[(VolumeId, PathBuf)]) -> Result<Vec<(VolumeId, Writes)>> {
    let mut looks = Vec::new();
    for (id, device) in watched {
        let writes = driver.host.kernel.writes(device).await.during("count writes to the device")?;
        looks.push((id.clone(), writes));
    }
    Ok(looks)
}
