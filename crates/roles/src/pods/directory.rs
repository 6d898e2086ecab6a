//! Removes what is left of a pod on disk, and nothing else.

use std::io;
use std::path::{Path, PathBuf};

use bowline_api::keys;
use bowline_host::disk::Kind;
use bowline_machinery::effect::EffectError;

use super::act::Pods;
use super::spec;
use super::world::Observed;

/// Deeper than any emptyDir should be; reaching it is refused rather than followed.
const DEPTH_MAX: usize = 128;

impl Pods {
    /// Volumes with a claim: empty directories only, never what is in them. emptyDir volumes and logs: whole.
    pub(super) async fn clean_directory(&self, seen: &Observed) -> Result<(), EffectError> {
        let root = self.config.kubelet_dir.join("pods").join(&seen.uid);
        let clean = async {
            self.no_mounts_below(&root).await?;
            let disk = &self.ports.host.disk;
            let empty_dirs = spec::empty_dirs(&self.config, &seen.uid);
            self.remove_tree(empty_dirs.clone()).await?;
            for kind in ["volumes", "volumeDevices"] {
                disk.remove_dir(&root.join(kind).join(keys::CSI_PLUGIN_ESCAPED)).await?;
                disk.remove_dir(&root.join(kind)).await?;
            }
            disk.remove_dir(&root).await?;
            for name in disk.list(&self.config.log_dir).await? {
                if name.ends_with(&format!("_{}", seen.uid)) {
                    self.remove_tree(self.config.log_dir.join(name)).await?;
                }
            }
            Ok(())
        };
        self.on_disk("remove", &root, clean).await
    }

    /// A mount that nobody knows of may hold somebody's data.
    async fn no_mounts_below(&self, root: &Path) -> io::Result<()> {
        let mounts = self.ports.host.kernel.mounts().await.map_err(io::Error::other)?;
        match mounts.iter().find(|m| m.target.starts_with(root)) {
            None => Ok(()),
            Some(mount) => Err(io::Error::other(format!("`{}` is still mounted", mount.target.display()))),
        }
    }

    /// Everything below a directory that is known to hold no mounts. Links are removed, not followed.
    async fn remove_tree(&self, root: PathBuf) -> io::Result<()> {
        let disk = &self.ports.host.disk;
        let mut pending = vec![root];
        while let Some(path) = pending.last().cloned() {
            if pending.len() > DEPTH_MAX {
                return Err(io::Error::other(format!("`{}` is nested too deeply", path.display())));
            }
            let mut inner = None;
            for name in disk.list(&path).await? {
                let child = path.join(name);
                match disk.kind(&child).await? {
                    Some(Kind::Dir) => {
                        inner = Some(child);
                        break;
                    }
                    _ => disk.remove_file(&child).await?,
                }
            }
            match inner {
                Some(child) => pending.push(child),
                None => {
                    disk.remove_dir(&path).await?;
                    pending.pop();
                }
            }
        }
        Ok(())
    }
}
