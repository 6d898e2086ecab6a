//! What a start takes over from the process before it, and what it clears away.
//!
//! Loop devices and mounts of volumes are found again by their images, so they stay as they are. What only a
//! crash leaves goes: devices whose image was deleted, and files that were being written.

use std::path::Path;

use bowline_host::kernel::{LoopDevice, Mount};

use super::driver::Driver;
use super::mounts::{Owner, owner};
use super::record::{IMAGE, Phase};
use crate::error::{During, VolumeError, chain};

type Result<T> = std::result::Result<T, VolumeError>;

/// Nothing here keeps the driver from starting: what cannot be cleared away is in nobody's way.
pub async fn adopt(driver: &Driver) {
    for (what, done) in [
        ("devices of deleted images", release_devices(driver).await),
        ("half-written files", remove_unfinished(driver).await),
    ] {
        if let Err(error) = done {
            tracing::warn!(error = chain(&error), "{what} may be left over");
        }
    }
}

async fn release_devices(driver: &Driver) -> Result<()> {
    let (disk, kernel) = (&driver.host.disk, &driver.host.kernel);
    let pool = disk.canonical(&driver.config.pool).await.during("look at the pool")?;
    let loops = kernel.loops().await.during("list loop devices")?;
    let mounts = kernel.mounts().await.during("read mount table")?;
    for found in abandoned(&pool, &loops, &mounts) {
        driver.point("local.adopt.before-detach");
        let (device, image) = (found.device.as_path(), found.image.display());
        match kernel.loop_release(device, &found.image).await {
            Ok(()) => tracing::info!(device = %device.display(), %image, "detached, its image is gone"),
            Err(error) => tracing::warn!(%image, %error, "device of a deleted image stays"),
        }
    }
    Ok(())
}

/// Devices over deleted images of the pool that show nowhere: nobody can ask for them any more.
pub fn abandoned<'a>(pool: &Path, loops: &'a [LoopDevice], mounts: &[Mount]) -> Vec<&'a LoopDevice> {
    let ours = |image: &Path| image.starts_with(pool) && image.file_name().is_some_and(|name| name == IMAGE);
    let shows = |device: &Path| mounts.iter().any(|mount| owner(device, mount) != Owner::Foreign);
    loops.iter().filter(|l| l.deleted && ours(&l.image) && !shows(&l.device)).collect()
}

/// A copy that was cut short may be large. Only things that were being made can have one; a record that was
/// being written is taken over by its next write.
async fn remove_unfinished(driver: &Driver) -> Result<()> {
    let disk = &driver.host.disk;
    let (volumes, snapshots) = (&driver.pool.volumes, &driver.pool.snapshots);
    let half_made = |phase: Phase| phase != Phase::Ready;
    let volumes =
        volumes.all().into_iter().filter(|(_, r)| half_made(r.phase)).map(|(id, _)| volumes.dir(&id));
    let snapshots =
        snapshots.all().into_iter().filter(|(_, r)| half_made(r.phase)).map(|(id, _)| snapshots.dir(&id));
    for dir in volumes.chain(snapshots) {
        for name in disk.unfinished(&dir).await.during("look for half-written files")? {
            driver.point("local.adopt.before-remove");
            disk.remove_file(&dir.join(name)).await.during("remove a half-written file")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, image: &str, deleted: bool) -> LoopDevice {
        LoopDevice { device: name.into(), image: image.into(), deleted, read_only: false }
    }

    fn mount(source: &str, root: &str, fs_type: &str) -> Mount {
        Mount {
            device: "7:0".into(),
            root: root.into(),
            target: "/t".into(),
            options: vec!["rw".into()],
            fs_type: fs_type.into(),
            source: source.into(),
            filesystem_read_only: false,
        }
    }

    #[test]
    fn which_devices_go() {
        let image = "/pool/volumes/v/disk.img";
        let table = [
            ("deleted and unused", device("/dev/loop0", image, true), vec![], true),
            ("in the pool", device("/dev/loop0", image, false), vec![], false),
            (
                "deleted, mounted",
                device("/dev/loop0", image, true),
                vec![mount("/dev/loop0", "/", "ext4")],
                false,
            ),
            (
                "deleted, shown",
                device("/dev/loop0", image, true),
                vec![mount("dev", "/loop0", "devtmpfs")],
                false,
            ),
            (
                "another is mounted",
                device("/dev/loop0", image, true),
                vec![mount("/dev/loop1", "/", "xfs")],
                true,
            ),
            ("of another pool", device("/dev/loop0", "/pool2/volumes/v/disk.img", true), vec![], false),
            ("no image of ours", device("/dev/loop0", "/pool/volumes/v/other", true), vec![], false),
        ];
        for (name, device, mounts, goes) in table {
            let loops = [device];
            assert_eq!(!abandoned(Path::new("/pool"), &loops, &mounts).is_empty(), goes, "{name}");
        }
    }
}
