//! Filesystems that are made to stand still, and never left so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_host::Host;
use bowline_host::kernel::{KernelError, Mount};

use super::super::driver::Driver;
use crate::error::{During, VolumeError};

/// One filesystem that does not come to rest must not stop those that are frozen already for longer.
const FREEZE_MAX: Duration = Duration::from_secs(30);
/// A workload hangs while its filesystem is frozen, so thawing is tried again.
const THAW_TRIES: u32 = 5;
const THAW_PAUSE: Duration = Duration::from_millis(50);

type Freezing = std::result::Result<(), KernelError>;

/// Lets every filesystem in the pool go on that a process froze and died.
pub async fn thaw_all(driver: &Driver) -> Result<(), VolumeError> {
    let kernel = &driver.host.kernel;
    let root = driver.pool.volumes.root();
    let devices = kernel.loops().await.during("list loop devices")?;
    let table = kernel.mounts().await.during("read mount table")?;
    for device in devices.iter().filter(|device| device.image.starts_with(root)) {
        for path in shown(&device.device, &table) {
            // Said by it; the others matter no less.
            let _ = thaw(&driver.host, &path).await;
        }
    }
    Ok(())
}

/// Where the filesystem on a device shows. Freezing it at one of them freezes it at all.
pub fn shown(device: &Path, table: &[Mount]) -> Vec<PathBuf> {
    let hidden = |at: usize, mount: &Mount| table[at + 1..].iter().any(|later| later.target == mount.target);
    let ours = |(at, mount): &(usize, &Mount)| Path::new(&mount.source) == device && !hidden(*at, mount);
    table.iter().enumerate().filter(ours).map(|(_, mount)| mount.target.clone()).collect()
}

/// A freeze that takes too long is given up, and undone if it succeeds after all.
pub async fn freeze(driver: &Driver, path: &Path) -> Freezing {
    let what = || format!("freeze what is mounted at `{}`", path.display());
    let (host, place) = (driver.host.clone(), path.to_owned());
    let mut freezing = tokio::spawn(async move { host.kernel.freeze(&place).await });
    if let Ok(ended) = tokio::time::timeout(FREEZE_MAX, &mut freezing).await {
        return ended.unwrap_or_else(|lost| Err(KernelError::other(what(), lost.to_string())));
    }
    let (host, place) = (driver.host.clone(), path.to_owned());
    tokio::spawn(async move {
        if let Ok(Ok(())) = freezing.await {
            let _ = thaw(&host, &place).await;
        }
    });
    Err(KernelError::other(what(), format!("it did not come to rest within {} s", FREEZE_MAX.as_secs())))
}

pub async fn thaw(host: &Host, path: &Path) -> Freezing {
    for tries in 1..THAW_TRIES {
        match host.kernel.thaw(path).await {
            Ok(()) => return Ok(()),
            Err(_) => tokio::time::sleep(THAW_PAUSE * tries).await,
        }
    }
    let last = host.kernel.thaw(path).await;
    last.inspect_err(|error| {
        tracing::error!(path = %path.display(), %error, "cannot thaw; try `fsfreeze --unfreeze`");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(source: &str, root: &str, target: &str) -> Mount {
        Mount {
            device: "7:0".into(),
            root: root.into(),
            target: target.into(),
            options: vec!["rw".into()],
            fs_type: "ext4".into(),
            source: source.into(),
            filesystem_read_only: false,
        }
    }

    #[test]
    fn where_a_filesystem_shows() {
        let table = [
            ("nowhere", vec![mount("/dev/loop1", "/", "/s")], vec![]),
            ("staged", vec![mount("/dev/loop0", "/", "/s")], vec!["/s"]),
            (
                "staged, published, and a part of it elsewhere",
                vec![
                    mount("/dev/loop0", "/", "/s"),
                    mount("/dev/loop0", "/", "/t"),
                    mount("/dev/loop0", "/sub", "/u"),
                ],
                vec!["/s", "/t", "/u"],
            ),
            ("hidden", vec![mount("/dev/loop0", "/", "/s"), mount("tmpfs", "/", "/s")], vec![]),
            ("on top", vec![mount("tmpfs", "/", "/s"), mount("/dev/loop0", "/", "/s")], vec!["/s"]),
            ("another with a longer name", vec![mount("/dev/loop01", "/", "/s")], vec![]),
        ];
        for (name, mounts, expected) in table {
            let expected: Vec<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(shown(Path::new("/dev/loop0"), &mounts), expected, "{name}");
        }
    }
}
