//! Which loop device the users of each block volume have.
//!
//! A pod with a block volume sees the device file itself, not a mount of the image. If something clears that device
//! while no process keeps it open (`Kernel::loop_hold`), its number is free, and the next image that gets it shows at
//! the old target. So no image is attached as a device whose file a target shows (`Kernel::loop_attach`), a volume whose
//! device has another image by now is neither staged nor published, and its targets can still be taken down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_host::kernel::Mount;

use super::driver::Driver;
use super::fit;
use crate::error::{During, VolumeError, chain};
use crate::id::VolumeId;

type Result<T> = std::result::Result<T, VolumeError>;

/// Devices by volume, from staging for block access to unstaging. The record keeps a copy for the next start.
#[derive(Default)]
pub struct Claims(Mutex<BTreeMap<VolumeId, PathBuf>>);

impl Claims {
    pub fn claim(&self, id: &VolumeId, device: &Path) {
        self.lock().insert(id.clone(), device.to_owned());
    }

    pub fn release(&self, id: &VolumeId) {
        self.lock().remove(id);
    }

    fn volumes(&self) -> Vec<VolumeId> {
        self.lock().keys().cloned().collect()
    }

    fn of(&self, id: &VolumeId) -> Option<PathBuf> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device that no longer has the volume's image although targets of the volume still show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub device: PathBuf,
    /// The image of the volume, which it should have.
    pub image: PathBuf,
    /// The image that it has now, if any.
    pub found: Option<PathBuf>,
    /// Where the volume's users see it.
    pub targets: Vec<PathBuf>,
}

impl Taken {
    /// For errors and findings.
    pub fn describe(&self) -> String {
        let found = match &self.found {
            Some(found) => format!("`{}`", found.display()),
            None => "no image".to_owned(),
        };
        let targets: Vec<String> =
            self.targets.iter().map(|target| format!("`{}`", target.display())).collect();
        format!(
            "its users at {} see `{}`, which has {found} instead of `{}`",
            targets.join(", "),
            self.device.display(),
            self.image.display()
        )
    }
}

/// Looks whether the volume's users have a device of something else. `attached` is the device that has its image.
/// Changes nothing, so it may be asked beside an operation on the volume.
pub async fn taken(driver: &Driver, id: &VolumeId, attached: Option<&Path>) -> Result<Option<Taken>> {
    Ok(match claim(driver, id, attached).await? {
        Claim::Taken(taken) => Some(taken),
        Claim::InOrder | Claim::Outdated => None,
    })
}

/// The same for the operation that has the volume alone, which forgets a claim that is outdated.
pub async fn settle(driver: &Driver, id: &VolumeId, attached: Option<&Path>) -> Result<Option<Taken>> {
    Ok(match claim(driver, id, attached).await? {
        Claim::Taken(taken) => Some(taken),
        Claim::InOrder => None,
        Claim::Outdated => {
            driver.claims.release(id);
            None
        }
    })
}

enum Claim {
    /// None, or of the device that has the volume's image.
    InOrder,
    /// No user of the volume is left: after a reboot, or taken down by hand.
    Outdated,
    Taken(Taken),
}

async fn claim(driver: &Driver, id: &VolumeId, attached: Option<&Path>) -> Result<Claim> {
    let Some(claimed) = driver.claims.of(id).filter(|claimed| Some(claimed.as_path()) != attached) else {
        return Ok(Claim::InOrder);
    };
    let table = driver.host.kernel.mounts().await.during("read mount table")?;
    let targets = shows(&claimed, &table);
    if targets.is_empty() {
        return Ok(Claim::Outdated);
    }
    let found = image_on(driver, &claimed).await?;
    if found.as_ref().is_some_and(|image| is_of_another(driver, id, image)) {
        return Ok(Claim::Outdated);
    }
    Ok(Claim::Taken(Taken { device: claimed, image: driver.pool.image(id), found, targets }))
}

async fn image_on(driver: &Driver, device: &Path) -> Result<Option<PathBuf>> {
    let loops = driver.host.kernel.loops().await.during("list loop devices")?;
    Ok(loops.into_iter().find(|found| found.device == device).map(|found| found.image))
}

/// Whether an image is that of another volume of this pool. A device that users of a volume still see is never given to
/// another one here, so what shows such a device are the other volume's users.
fn is_of_another(driver: &Driver, id: &VolumeId, image: &Path) -> bool {
    driver.pool.volumes.all().iter().any(|(other, _)| other != id && driver.pool.image(other) == image)
}

/// Where the file of a device shows.
pub fn shows(device: &Path, table: &[Mount]) -> Vec<PathBuf> {
    let shown = table.iter().filter(|mount| mount.shows_device(device));
    shown.map(|mount| mount.target.clone()).collect()
}

/// Claims at start the devices that block users have since before. One that shows nowhere and has another image, or
/// none, is from before a reboot.
pub async fn begin(driver: &Driver) {
    if let Err(error) = recall(driver).await {
        tracing::warn!(error = chain(&error), "which devices block volumes had before is not known");
    }
}

/// Withdraws requests to clear the devices of block users before this process closes them: they outlive it.
pub async fn leave(driver: &Driver) {
    for id in driver.claims.volumes() {
        if let Err(error) = fit::attached(driver, &id).await {
            tracing::warn!(volume = %id, error = chain(&error), "loop device may go when it is closed");
        }
    }
}

async fn recall(driver: &Driver) -> Result<()> {
    let recorded: Vec<_> =
        driver.pool.volumes.all().into_iter().filter(|(_, r)| r.device.is_some()).collect();
    if recorded.is_empty() {
        return Ok(());
    }
    let table = driver.host.kernel.mounts().await.during("read mount table")?;
    for (id, record) in recorded {
        let Some(device) = &record.device else { continue };
        // One that cannot be asked about is claimed: to be refused is better than to be given another's device.
        let attached = driver.host.kernel.loop_hold(&driver.pool.image(&id)).await.unwrap_or_else(|error| {
            tracing::warn!(volume = %id, %error, "loop device of a block volume cannot be looked at");
            Some(device.clone())
        });
        let elsewhere = image_on(driver, device).await?;
        let reused = elsewhere.is_some_and(|image| is_of_another(driver, &id, &image));
        if attached.as_ref() == Some(device) || (!reused && !shows(device, &table).is_empty()) {
            driver.claims.claim(&id, device);
        }
    }
    Ok(())
}
