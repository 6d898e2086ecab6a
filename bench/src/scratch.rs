//! A temporary directory that takes its mounts and loop devices with it when it goes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bowline_host::Host;

/// Mounts stand on loop devices that stand on files in mounts: each pass frees what the next one can take.
const PASSES_MAX: usize = 8;

pub struct Scratch {
    path: PathBuf,
    host: Host,
}

impl Scratch {
    pub fn make(host: &Host) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bowline-bench-").tempdir();
        let dir = dir.context("make a scratch directory (TMPDIR says where)")?.keep();
        // The kernel names mounts and images by their real paths.
        let path = dir.canonicalize().with_context(|| format!("resolve `{}`", dir.display()))?;
        Ok(Self { path, host: host.clone() })
    }

    /// A new directory inside.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("make `{}`", path.display()))?;
        Ok(path)
    }

    /// Unmounts, detaches and removes everything below. What cannot go is named, and nothing is removed then:
    /// a directory that is still mounted may be somebody's data.
    pub async fn clean(self) -> Result<()> {
        for _ in 0..PASSES_MAX {
            for target in self.mounted().await?.into_iter().rev() {
                // A failure is seen by the next look at the table.
                let _ = self.host.kernel.unmount(&target).await;
            }
            for device in attached_below(&self.path)? {
                let _ = self.host.kernel.loop_detach(&device).await;
            }
            if self.mounted().await?.is_empty() && attached_below(&self.path)?.is_empty() {
                let path = self.path.clone();
                let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path)).await?;
                return removed.with_context(|| format!("remove `{}`", self.path.display()));
            }
        }
        let mounts = self.mounted().await?;
        bail!("`{}` stays behind: {mounts:?} cannot be unmounted", self.path.display())
    }

    /// Oldest first, as the mount table has them.
    async fn mounted(&self) -> Result<Vec<PathBuf>> {
        let mounts = self.host.kernel.mounts().await.context("read the mount table")?;
        let targets = mounts.into_iter().map(|mount| mount.target);
        Ok(targets.filter(|target| target.starts_with(&self.path)).collect())
    }
}

/// Loop devices whose image is, or was, below a directory.
pub fn attached_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir("/sys/block").context("list `/sys/block`")?;
    let mut devices = Vec::new();
    for entry in entries.flatten() {
        let Ok(mut image) = std::fs::read(entry.path().join("loop/backing_file")) else { continue };
        image.pop_if(|byte| *byte == b'\n');
        if PathBuf::from(OsString::from_vec(image)).starts_with(dir) {
            devices.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Medium;
    use bowline_host::real::{RealConfig, host};

    #[tokio::test]
    async fn what_stands_on_what_is_taken_apart_from_the_top() {
        let host = host(RealConfig::new("/nonexistent")).unwrap();
        let scratch = Scratch::make(&host).unwrap();
        let path = scratch.path.clone();
        // A filesystem in an image in a filesystem in an image.
        let outer = Medium::make(&host, &path, "ext4", 64 << 20).await.unwrap();
        Medium::make(&host, &outer.mounted, "ext4", 16 << 20).await.unwrap();
        assert_eq!(attached_below(&path).unwrap().len(), 2);
        scratch.clean().await.unwrap();
        assert!(!path.exists());
        assert_eq!(attached_below(&path).unwrap(), Vec::<PathBuf>::new());
    }
}
