//! What a journey must not leave behind.

use anyhow::Result;
use bowline_api::{PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment};

use crate::up::Running;

/// Counted things that should all be zero.
pub struct Leftovers(Vec<(&'static str, usize)>);

impl Leftovers {
    pub async fn look(running: &Running) -> Result<Self> {
        let informers = &running.ports.informers;
        let host = &running.ports.host;
        let root = &running.config.data_dir;
        let mounts = host.kernel.mounts().await?;
        let mine = |m: &&bowline_host::kernel::Mount| {
            m.target.starts_with(root) || m.target.starts_with(&running.config.kubelet_dir)
        };
        let volumes = running.config.pool().join("volumes");
        let images = host.disk.list(&volumes).await?;
        let mut loops = 0;
        for image in &images {
            loops += usize::from(host.kernel.loop_of(&volumes.join(image).join("disk.img")).await?.is_some());
        }
        Ok(Self(vec![
            ("pods", informers.of::<Pod>().list().len()),
            ("claims", informers.of::<PersistentVolumeClaim>().list().len()),
            ("volumes", informers.of::<PersistentVolume>().list().len()),
            ("attachments", informers.of::<VolumeAttachment>().list().len()),
            ("mounts", mounts.iter().filter(mine).count()),
            ("loop devices", loops),
            ("image files", images.len()),
        ]))
    }

    pub fn any(&self) -> bool {
        self.0.iter().any(|(_, count)| *count > 0)
    }

    pub fn lines(&self) -> Vec<String> {
        vec![self.0.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(" · ")]
    }
}
