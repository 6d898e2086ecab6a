//! Removes what is left of a pod on disk, and nothing else.
//!
//! # Crash safety
//!
//! The pod's record goes last: whoever dies before comes here again. Files that this installation did not make are never
//! removed. They do not keep the pod in the API either: they are reported, and tried again in the background. A mount
//! below the directory does keep it, because a volume that is mounted must not be forgotten (NODE-3).

use std::io;
use std::path::Path;

use bowline_api::{Pod, keys};
use bowline_host::disk::Kind;
use bowline_machinery::effect::EffectError;
use bowline_machinery::queue::Verdict;

use super::leftovers::Leftover;
use super::model::Observed;
use super::role::Pods;
use super::spec;
use crate::kubelet::localvolumes::Plugin;
use crate::kubelet::volumemanager::VOL_DATA;

/// No word of upstream's: its kubelet only logs it.
const FAILED_REMOVAL: &str = "FailedRemovePodDirectory";

impl Pods {
    /// Removes logs and directories of a pod whose volumes are gone.
    pub(super) async fn clean_directory(&self, seen: &Observed) -> Result<(), EffectError> {
        let root = self.config.kubelet_dir.join("pods").join(&seen.uid);
        let removed = self.on_disk("remove", &root, self.remove_directory(&seen.uid, &root)).await;
        let Err(error) = removed else { return Ok(()) };
        let mounts = self.mounts_below(&root).await?;
        let text = match mounts.first() {
            Some(mount) => format!(
                "the pod's directory stays, and the pod with it: `{mount}` is mounted; `findmnt -R {}` shows it",
                root.display()
            ),
            None => format!("{error}; `find {} -ls` shows what is in the way", root.display()),
        };
        self.tell_of_directory(seen.pod.as_deref(), &seen.uid, &text);
        if !mounts.is_empty() {
            return Err(EffectError::refused(text));
        }
        self.leftovers.add(Leftover::Directory(seen.uid.clone()));
        Ok(())
    }

    /// One more try, in the background and with back-off, for a pod that is gone.
    pub(super) async fn clean_leftover_directory(&self, uid: &str) -> Verdict {
        if !self.records.knows(uid) || self.is_here(uid) {
            return Verdict::Done;
        }
        let root = self.config.kubelet_dir.join("pods").join(uid);
        match self.on_disk("remove", &root, self.remove_directory(uid, &root)).await {
            Ok(()) => {
                self.told.forget(&format!("directory {uid}"));
                Verdict::Done
            }
            Err(error) => {
                self.tell_of_directory(None, uid, &error.message);
                Verdict::Retry
            }
        }
    }

    /// Only empty directories, our own records and logs go. Logs go first: after a crash the directory still tells of the
    /// pod.
    async fn remove_directory(&self, uid: &str, root: &Path) -> io::Result<()> {
        let disk = &self.ports.host.disk;
        for name in disk.list(&self.config.log_dir).await? {
            if spec::pod_of_logs(&name) == Some(uid) {
                disk.remove_tree(&self.config.log_dir.join(name)).await?;
            }
        }
        self.point("logs");
        // Reference 4.20: nothing is removed below a mount, not even a file that has the name of one of ours.
        if let Some(mount) = self.mounts_below(root).await.map_err(io::Error::other)?.first() {
            let text = format!("`{mount}` is mounted");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        for plugin in Plugin::ALL {
            disk.remove_dir(&root.join("volumes").join(plugin.directory())).await?;
        }
        self.point("plugins");
        self.remove_claimed(&root.join("volumes").join(keys::CSI_PLUGIN_ESCAPED)).await?;
        disk.remove_dir(&root.join("volumes")).await?;
        self.point("volumes");
        self.remove_links(&root.join("volumeDevices").join(keys::CSI_PLUGIN_ESCAPED)).await?;
        disk.remove_dir(&root.join("volumeDevices")).await?;
        self.point("devices");
        disk.remove_dir(root).await?;
        self.point("directory");
        let left = || self.mounts.left(uid) || self.local.left(uid);
        self.records.remove(uid, left).await
    }

    /// What is left of volumes that are not mounted: a process may have died in the middle of removing or making them.
    async fn remove_claimed(&self, volumes: &Path) -> io::Result<()> {
        let disk = &self.ports.host.disk;
        for name in disk.list(volumes).await? {
            let volume = volumes.join(name);
            if disk.kind(&volume).await? == Some(Kind::Dir) {
                // Fails for a mount point, and then the record stays.
                disk.remove_dir(&volume.join("mount")).await?;
                disk.remove_file(&volume.join(VOL_DATA)).await?;
                disk.remove_dir(&volume).await?;
            }
        }
        disk.remove_dir(volumes).await
    }

    async fn remove_links(&self, devices: &Path) -> io::Result<()> {
        let disk = &self.ports.host.disk;
        for name in disk.list(devices).await? {
            let link = devices.join(name);
            if disk.kind(&link).await? == Some(Kind::Symlink) {
                disk.remove_file(&link).await?;
            }
        }
        disk.remove_dir(devices).await
    }

    async fn mounts_below(&self, root: &Path) -> Result<Vec<String>, EffectError> {
        let mounts = self.ports.host.kernel.mounts().await;
        let mounts = mounts.map_err(|error| EffectError::unknown(error.to_string()))?;
        let below = mounts.into_iter().map(|mount| mount.target).filter(|target| target.starts_with(root));
        Ok(below.map(|target| target.display().to_string()).collect())
    }

    /// Whether containers of the pod may run here, or will.
    fn is_here(&self, uid: &str) -> bool {
        self.tenants.inside(uid) || self.mounts.left(uid) || self.local.left(uid)
    }

    fn tell_of_directory(&self, pod: Option<&Pod>, uid: &str, text: &str) {
        if self.told.news(&format!("directory {uid}"), text) {
            tracing::warn!(pod = uid, error = text, "cannot remove a pod's directory, will try again");
        }
        if let Some(pod) = pod {
            self.recorder.warning(pod, FAILED_REMOVAL, text);
        }
    }

    fn point(&self, removed: &str) {
        self.ports.host.failpoints.hit(&format!("kubelet.remove-directory.{removed}"));
    }
}
