//! Publishing filesystems to pods, and the directories around mounts.

use std::io;
use std::path::{Path, PathBuf};

use bowline_api::volume;
use bowline_machinery::effect::EffectError;
use bowline_proto::csi::v1::NodeUnpublishVolumeRequest;

use super::act::{pod, refused_cleanly, source};
use super::model::{Mode, Observed, Presence, Staging, Target};
use super::paths::DIR_MODE;
use super::record::Record;
use super::request::{About, Source};
use super::role::Manager;
use crate::kubelet::fs_group;
use crate::kubelet::pluginmanager::Registered;

impl Manager {
    pub(super) async fn publish_filesystem(
        &self,
        seen: &Observed,
        target: &Target,
    ) -> Result<(), EffectError> {
        let (pv, pod, driver) = (source(seen, target)?, pod(seen, target)?, self.driver(seen).await?);
        let csi = volume::csi(pv).ok_or_else(|| EffectError::refused("the volume is no CSI volume"))?;
        let before = self.announce(seen, target, Mode::Filesystem);
        let context = self.publish_context(seen).await;
        let context = self.still_wanted(seen, target, Mode::Filesystem, context)?;
        let secrets = self.secrets("NodePublishSecretRef", csi.node_publish_secret_ref.as_ref()).await;
        let secrets = self.still_wanted(seen, target, Mode::Filesystem, secrets)?;
        let tokens = self.service_account_tokens(seen, target, pod).await;
        let tokens = self.still_wanted(seen, target, Mode::Filesystem, tokens)?;
        let path = self.paths.mount(target);
        let staging = self.staging_of(seen, &driver);
        let read_only = seen.needs.get(target).is_some_and(|n| n.read_only);
        let able = driver.capabilities;
        let source = Source { pv, csi, context, secrets, able, fs_group: fs_group::fs_group(pod) };
        let about = About { pod, driver: seen.csi_driver.as_deref(), ephemeral: seen.inline, tokens };
        let request = source.publish(staging.as_deref(), &path, read_only, about);
        let request =
            self.still_wanted(seen, target, Mode::Filesystem, request.map_err(EffectError::refused))?;

        self.record_pod(target).await?;
        let record = Record::mount(&seen.driver_name, &seen.handle, &self.node_name, target, seen.inline);
        self.record_at(&self.paths.pod_volume(target), &self.paths.mount_record(target), &record).await?;
        let send = |request| async move { driver.connection.node().node_publish_volume(request).await };
        let published = self.call("NodePublishVolume", seen, request, send).await;
        if refused_cleanly(&published, before) {
            self.clean_mount(target).await?;
            self.memory.set_mount(&seen.volume, target, Mode::Filesystem, Presence::Absent);
        }
        published?;
        let csi_driver = seen.csi_driver.as_deref();
        if let Some(grant) = fs_group::csi_grant(pod, pv, csi_driver, read_only, able.volume_mount_group) {
            let given = fs_group::give(&self.ports, &self.recorder, &self.tenants, pod, &path, grant);
            self.on_disk("give to group", &path, given).await?;
        }
        self.published(seen, target, Mode::Filesystem);
        self.time_republication(seen, target);
        Ok(())
    }

    /// The same call for a pod that uses the volume. Whatever becomes of it, the mount stays as it is
    /// (reference kube-core.md 9.3.5).
    pub(super) async fn republish(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let republished = self.call_again(seen, target).await;
        self.memory.attempted(&seen.volume, target, republished.is_ok());
        match republished {
            Ok(()) => {
                self.time_republication(seen, target);
                Ok(())
            }
            Err(error) if error.conflict() || !self.wants(&target.pod_uid) => Err(error),
            Err(error) => Err(self.told(seen, target, "MountVolume.SetUp", error)),
        }
    }

    async fn call_again(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let (pv, pod, driver) = (source(seen, target)?, pod(seen, target)?, self.driver(seen).await?);
        let csi = volume::csi(pv).ok_or_else(|| EffectError::refused("the volume is no CSI volume"))?;
        let context = self.publish_context(seen).await?;
        let secrets = self.secrets("NodePublishSecretRef", csi.node_publish_secret_ref.as_ref()).await?;
        let tokens = self.service_account_tokens(seen, target, pod).await?;
        let (path, staging) = (self.paths.mount(target), self.staging_of(seen, &driver));
        let read_only = seen.needs.get(target).is_some_and(|n| n.read_only);
        let able = driver.capabilities;
        let source = Source { pv, csi, context, secrets, able, fs_group: fs_group::fs_group(pod) };
        let about = About { pod, driver: seen.csi_driver.as_deref(), ephemeral: seen.inline, tokens };
        let request = source.publish(staging.as_deref(), &path, read_only, about);
        let request = request.map_err(EffectError::refused)?;
        let send = |request| async move { driver.connection.node().node_publish_volume(request).await };
        self.call("NodePublishVolume", seen, request, send).await.map(drop)
    }

    /// Where the volume is staged, if it is.
    fn staging_of(&self, seen: &Observed, driver: &Registered) -> Option<PathBuf> {
        let stages = driver.capabilities.stage_unstage && !seen.inline;
        stages.then(|| self.paths.staging(&seen.driver_name, &seen.handle, &Staging::Filesystem))
    }

    pub(super) async fn unpublish_filesystem(
        &self,
        seen: &Observed,
        target: &Target,
    ) -> Result<(), EffectError> {
        let driver = self.driver(seen).await?;
        self.memory.set_mount(&seen.volume, target, Mode::Filesystem, Presence::Uncertain);
        let target_path = self.paths.mount(target).display().to_string();
        let request = NodeUnpublishVolumeRequest { volume_id: seen.handle.clone(), target_path };
        let send = |request| async move { driver.connection.node().node_unpublish_volume(request).await };
        self.call("NodeUnpublishVolume", seen, request, send).await?;
        self.clean_mount(target).await?;
        self.memory.set_mount(&seen.volume, target, Mode::Filesystem, Presence::Absent);
        Ok(())
    }

    /// Before anything else of a publication: as long as the volume may be here, neither the pod's directory nor the pod
    /// is removed. Returns what was there before.
    pub(super) fn announce(&self, seen: &Observed, target: &Target, mode: Mode) -> Presence {
        self.memory.set_mount(&seen.volume, target, mode, Presence::Uncertain);
        seen.needs.get(target).map(|need| need.presence).unwrap_or_default()
    }

    /// Passes on what a publication has got ready without an effect. When that failed, or the pod has ended meanwhile,
    /// nothing has changed on this machine, and nothing will: it is as before the announcement.
    ///
    /// The pod workers look for announcements after they have seen the pod end, and here the pod is looked at after the
    /// announcement. So one of the two always sees the other.
    pub(super) fn still_wanted<T>(
        &self,
        seen: &Observed,
        target: &Target,
        mode: Mode,
        ready: Result<T, EffectError>,
    ) -> Result<T, EffectError> {
        let ready = ready.and_then(|ready| match self.wants(&target.pod_uid) {
            true => Ok(ready),
            false => Err(EffectError::refused("the pod has ended meanwhile")),
        });
        if ready.is_err() {
            let before = seen.needs.get(target).map(|need| need.presence).unwrap_or_default();
            self.memory.set_mount(&seen.volume, target, mode, before);
        }
        ready
    }

    /// The record is durable before the call: whoever comes after us can take the volume down.
    pub(super) async fn record_at(
        &self,
        dir: &Path,
        file: &Path,
        record: &Record,
    ) -> Result<(), EffectError> {
        let disk = &self.ports.host.disk;
        let write = async {
            disk.create_dir_all(dir, DIR_MODE).await?;
            self.point("record.directory-made");
            record.write(&self.ports.host, file).await
        };
        self.on_disk("record", file, write).await
    }

    /// That the pod's directory is ours is known before it is made.
    pub(super) async fn record_pod(&self, target: &Target) -> Result<(), EffectError> {
        let uid = &target.pod_uid;
        if self.records.has(uid).await {
            return Ok(());
        }
        self.on_disk("record pod", &self.paths.pod(uid), self.records.add(uid)).await
    }

    pub(super) async fn record_stage(
        &self,
        seen: &Observed,
        staging: &Staging,
        path: &Path,
    ) -> Result<(), EffectError> {
        let (driver, handle) = (&seen.driver_name, &seen.handle);
        let file = self.paths.staging_record(driver, handle, staging);
        let (dir, record) = match staging {
            Staging::Filesystem => (self.paths.global(driver, handle), Record::staged(driver, handle)),
            Staging::Block(spec_name) => {
                let record = Record::device(driver, handle, &self.node_name, spec_name);
                (self.paths.device_data(spec_name), record)
            }
        };
        self.record_at(&dir, &file, &record).await?;
        self.on_disk("mkdir", path, self.ports.host.disk.create_dir_all(path, DIR_MODE)).await
    }

    /// The record goes after the mount point: dying in between leaves enough to come here again.
    async fn clean_mount(&self, target: &Target) -> Result<(), EffectError> {
        let mount = self.paths.mount(target);
        let clean = async {
            self.not_mounted(&mount).await?;
            self.remove_dir(&mount, "clean-mount.mount-point").await;
            self.remove_file(&self.paths.mount_record(target), "clean-mount.record").await;
            self.remove_dir(&self.paths.pod_volume(target), "clean-mount.directory").await;
            Ok(())
        };
        self.on_disk("remove", &mount, clean).await
    }

    pub(super) async fn clean_stage(&self, seen: &Observed, staging: &Staging) -> Result<(), EffectError> {
        let (driver, handle) = (&seen.driver_name, &seen.handle);
        let path = self.paths.staging(driver, handle, staging);
        let record = self.paths.staging_record(driver, handle, staging);
        let clean = async {
            self.not_mounted(&path).await?;
            self.remove_dir(&path, "clean-stage.mount-point").await;
            if let Staging::Block(spec_name) = staging {
                self.remove_dir(&self.paths.device_publish(spec_name), "clean-stage.publish").await;
                self.remove_dir(&self.paths.device_map(spec_name), "clean-stage.map").await;
            }
            self.remove_file(&record, "clean-stage.record").await;
            match staging {
                Staging::Filesystem => {
                    self.remove_dir(&self.paths.global(driver, handle), "clean-stage.directory").await;
                }
                Staging::Block(spec_name) => {
                    self.remove_dir(&self.paths.device_data(spec_name), "clean-stage.data").await;
                    self.remove_dir(&self.paths.device(spec_name), "clean-stage.directory").await;
                }
            }
            Ok(())
        };
        self.on_disk("remove", &path, clean).await
    }

    /// Removes an empty directory around a mount that is gone. One that cannot be removed holds up neither the pod nor
    /// the detach: the removal of the pod's directory reports it and tries again, and so does the next start.
    pub(super) async fn remove_dir(&self, path: &Path, point: &str) {
        self.left_behind(path, self.ports.host.disk.remove_dir(path).await);
        self.point(point);
    }

    /// [`Manager::remove_dir`] for files.
    pub(super) async fn remove_file(&self, path: &Path, point: &str) {
        self.left_behind(path, self.ports.host.disk.remove_file(path).await);
        self.point(point);
    }

    fn left_behind(&self, path: &Path, removed: io::Result<()>) {
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "cannot remove what a volume left behind");
        }
    }

    /// Between two system calls of one effect.
    pub(super) fn point(&self, name: &str) {
        self.ports.host.failpoints.hit(&format!("kubelet.{name}"));
    }

    /// Nothing is removed below a mount that the driver left behind: it may hold data.
    async fn not_mounted(&self, path: &Path) -> io::Result<()> {
        match self.ports.host.kernel.mount_at(path).await.map_err(io::Error::other)? {
            None => Ok(()),
            Some(_) => Err(io::Error::other("it is still a mount point")),
        }
    }

    /// The mount table has the last word on whether something still uses the stage (reference kube-core.md 9.3.8).
    pub(super) async fn unreferenced(&self, seen: &Observed, staging: &Staging) -> Result<(), EffectError> {
        let path = self.paths.staging(&seen.driver_name, &seen.handle, staging);
        let kernel = &self.ports.host.kernel;
        let failed = |e: bowline_host::kernel::KernelError| EffectError::unknown(e.to_string());
        if let Staging::Block(spec_name) = staging {
            let map = self.paths.device_map(spec_name);
            let unread = |e: io::Error| EffectError::unknown(format!("list `{}`: {e}", map.display()));
            let left = self.ports.host.disk.list(&map).await.map_err(unread)?;
            if !left.is_empty() {
                let text = format!("the device map of {spec_name} is still used by pods {left:?}");
                return Err(EffectError::refused(text));
            }
            return Ok(());
        }
        let Some(staged) = kernel.mount_at(&path).await.map_err(failed)? else { return Ok(()) };
        let mounts = kernel.mounts().await.map_err(failed)?;
        let same = mounts.iter().filter(|m| m.device == staged.device && m.root == staged.root);
        // A whole filesystem that was mounted from its device has its origin elsewhere: only binds count.
        let pods = self.paths.pods();
        let others = same.map(|m| &m.target).filter(|target| **target != path && target.starts_with(&pods));
        let others: Vec<_> = others.map(|target| target.display().to_string()).collect();
        if others.is_empty() {
            return Ok(());
        }
        Err(EffectError::refused(format!(
            "the device mount path {:?} is still mounted by other references {others:?}",
            path.display().to_string()
        )))
    }
}
