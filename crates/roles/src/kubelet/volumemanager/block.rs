//! Publishing devices to pods (reference kube-core.md 4.9): the driver places the device at the publish path, from
//! where it is bound into the global map, one file per pod.

use std::io;

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

impl Manager {
    pub(super) async fn publish_device(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let (pv, pod, driver) = (source(seen, target)?, pod(seen, target)?, self.driver(seen).await?);
        let csi = volume::csi(pv).ok_or_else(|| EffectError::refused("the volume is no CSI volume"))?;
        let before = self.announce(seen, target, Mode::Block);
        let context = self.publish_context(seen).await;
        let context = self.still_wanted(seen, target, Mode::Block, context)?;
        let secrets = self.secrets("NodePublishSecretRef", csi.node_publish_secret_ref.as_ref()).await;
        let secrets = self.still_wanted(seen, target, Mode::Block, secrets)?;
        let staging = Staging::Block(target.spec_name.clone());
        let staging_path = self.paths.staging(&seen.driver_name, &seen.handle, &staging);
        let path = self.paths.published_device(target);
        let read_only = seen.needs.get(target).is_some_and(|n| n.read_only);
        let able = driver.capabilities;
        let source = Source { pv, csi, context, secrets, able, fs_group: fs_group::fs_group(pod) };
        // Tokens are for filesystems only.
        let (driver_object, ephemeral) = (seen.csi_driver.as_deref(), seen.inline);
        let about = About { pod, driver: driver_object, ephemeral, tokens: None };
        let request = source.publish(Some(&staging_path), &path, read_only, about);
        let request = self.still_wanted(seen, target, Mode::Block, request.map_err(EffectError::refused))?;

        if !driver.capabilities.stage_unstage {
            // Nothing is staged, but the directories of staging are there and will have to go.
            self.memory.set_stage(&seen.volume, &staging, Presence::Uncertain);
        }
        self.record_pod(target).await?;
        self.record_device(seen, target).await?;
        let send = |request| async move { driver.connection.node().node_publish_volume(request).await };
        let published = self.call("NodePublishVolume", seen, request, send).await;
        if refused_cleanly(&published, before) {
            self.clean_device(target).await?;
            self.memory.set_mount(&seen.volume, target, Mode::Block, Presence::Absent);
        }
        published?;
        self.map(target).await?;
        self.published(seen, target, Mode::Block);
        self.mapped_events(pod, target);
        Ok(())
    }

    pub(super) async fn unpublish_device(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let driver = self.driver(seen).await?;
        self.memory.set_mount(&seen.volume, target, Mode::Block, Presence::Uncertain);
        self.unmap(target).await?;
        let target_path = self.paths.published_device(target).display().to_string();
        let request = NodeUnpublishVolumeRequest { volume_id: seen.handle.clone(), target_path };
        let send = |request| async move { driver.connection.node().node_unpublish_volume(request).await };
        self.call("NodeUnpublishVolume", seen, request, send).await?;
        self.clean_device(target).await?;
        self.memory.set_mount(&seen.volume, target, Mode::Block, Presence::Absent);
        Ok(())
    }

    /// The link in the pod's directory is made before the call, not after it: it is what a later process finds the
    /// publication by, whatever became of the call.
    async fn record_device(&self, seen: &Observed, target: &Target) -> Result<(), EffectError> {
        let spec_name = &target.spec_name;
        let record = Record::device(&seen.driver_name, &seen.handle, &self.node_name, spec_name);
        let staging = Staging::Block(spec_name.clone());
        let file = self.paths.staging_record(&seen.driver_name, &seen.handle, &staging);
        self.record_at(&self.paths.device_data(spec_name), &file, &record).await?;
        let (link, disk) = (self.paths.device_link(target), &self.ports.host.disk);
        let write = async {
            disk.create_dir_all(&self.paths.device_publish(spec_name), DIR_MODE).await?;
            self.point("link.publish-made");
            disk.create_dir_all(&self.paths.device_map(spec_name), DIR_MODE).await?;
            self.point("link.map-made");
            disk.create_dir_all(&self.paths.pod_devices(&target.pod_uid), DIR_MODE).await?;
            self.point("link.pod-made");
            match disk.symlink(&self.paths.mapped(target), &link).await {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        };
        self.on_disk("link", &link, write).await
    }

    async fn map(&self, target: &Target) -> Result<(), EffectError> {
        let (published, mapped) = (self.paths.published_device(target), self.paths.mapped(target));
        let host = &self.ports.host;
        let bind = async {
            if host.kernel.mount_at(&mapped).await.map_err(io::Error::other)?.is_some() {
                return Ok(());
            }
            host.disk.create_file(&mapped).await?;
            self.point("bind.file-made");
            host.kernel.bind(&published, &mapped, false).await.map_err(io::Error::other)
        };
        self.on_disk("bind", &mapped, bind).await
    }

    async fn unmap(&self, target: &Target) -> Result<(), EffectError> {
        let (mapped, host) = (self.paths.mapped(target), &self.ports.host);
        let unbind = async {
            host.kernel.unmount(&mapped).await.map_err(io::Error::other)?;
            self.point("unbind.unmounted");
            host.disk.remove_file(&mapped).await
        };
        self.on_disk("unbind", &mapped, unbind).await
    }

    async fn clean_device(&self, target: &Target) -> Result<(), EffectError> {
        let link = self.paths.device_link(target);
        self.on_disk("unlink", &link, self.ports.host.disk.remove_file(&link)).await
    }

    fn mapped_events(&self, pod: &bowline_api::Pod, target: &Target) {
        let name = &target.spec_name;
        let global = self.paths.device_map(name);
        let links = self.paths.pod_devices(&target.pod_uid);
        let tell = |what: &str, path: &std::path::Path| {
            let text = format!(
                "MapVolume.MapPodDevice succeeded for volume \"{name}\" {what} \"{}\"",
                path.display()
            );
            self.recorder.normal(pod, "SuccessfulMountVolume", text);
        };
        tell("globalMapPath", &global);
        tell("volumeMapPath", &links);
    }
}
