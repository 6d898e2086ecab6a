//! What the person at the keyboard does, and how they know that it worked.

use anyhow::{Context, Result, anyhow};
use bowline_api::{
    Meta, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment, build, pod,
};
use bowline_machinery::effect::Effects;

use crate::up::Running;

const CLASS: &str = "demo";
const CLAIM: &str = "data";
const POD: &str = "writer";
const MESSAGE: &str = "hello from inside the container";

pub struct Steps<'a> {
    running: &'a Running,
    effects: Effects,
    fs_type: String,
}

impl<'a> Steps<'a> {
    pub fn new(running: &'a Running, fs_type: &str) -> Self {
        Self { running, effects: running.ports.effects("kubectl"), fs_type: fs_type.to_owned() }
    }

    /// Creates class, claim and pod, and waits for the container to run.
    pub async fn apply(&self) -> Result<()> {
        let class =
            build::class(CLASS, bowline_drivers::local::NAME).wait_for_consumer().fs_type(&self.fs_type);
        self.effects.create::<StorageClass>(&class.build()).await?;
        let claim = build::claim(CLAIM).class(CLASS).size("512Mi").build();
        self.effects.create::<PersistentVolumeClaim>(&claim).await?;
        // Written by an init container: when the pod runs, the file is there.
        let write = format!("echo '{MESSAGE}' > /data/hello");
        let writer = build::pod(POD).mount(CLAIM, "/data").init_shell(&write).shell("exec sleep 3600");
        let writer = writer.grace_seconds(5).build();
        self.effects.create::<Pod>(&writer).await?;

        let pods = self.running.ports.informers.of::<Pod>();
        pods.until(|pods| pods.list().into_iter().find(|p| p.name() == POD && pod::phase(p) == "Running"))
            .await;
        Ok(())
    }

    /// The file as the machine sees it, and the mount it lies on.
    pub async fn read_back(&self) -> Result<Vec<String>> {
        let ports = &self.running.ports;
        let pods = ports.informers.of::<Pod>().list();
        let writer = pods.iter().find(|p| p.name() == POD).ok_or_else(|| anyhow!("pod `{POD}` is gone"))?;
        let volumes = self.running.config.kubelet_dir.join("pods").join(writer.uid()).join("volumes");
        let volume = ports.informers.of::<PersistentVolume>().list();
        let volume = volume.first().ok_or_else(|| anyhow!("the volume is gone"))?;
        let mount = volumes.join(bowline_api::keys::CSI_PLUGIN_ESCAPED).join(volume.name()).join("mount");

        let content =
            ports.host.disk.read(&mount.join("hello")).await.context("read what the container wrote")?;
        let mounts = ports.host.kernel.mounts().await?;
        let shown = mounts.iter().rfind(|m| m.target == mount).context("the volume is not mounted")?;
        Ok(vec![
            format!("the container wrote to its volume: {:?}", String::from_utf8_lossy(&content).trim_end()),
            format!("{} on {} type {}", shown.source, mount.display(), shown.fs_type),
        ])
    }

    /// Deletes pod, claim and class, and waits until volume and attachment are gone, too.
    pub async fn delete(&self) -> Result<()> {
        let informers = &self.running.ports.informers;
        for pod in informers.of::<Pod>().list() {
            self.effects.delete(pod.as_ref(), None).await?;
        }
        for claim in informers.of::<PersistentVolumeClaim>().list() {
            self.effects.delete(claim.as_ref(), None).await?;
        }
        informers.of::<Pod>().until(|c| c.list().is_empty().then_some(())).await;
        informers.of::<PersistentVolumeClaim>().until(|c| c.list().is_empty().then_some(())).await;
        informers.of::<PersistentVolume>().until(|c| c.list().is_empty().then_some(())).await;
        informers.of::<VolumeAttachment>().until(|c| c.list().is_empty().then_some(())).await;
        if let Some(class) = informers.of::<StorageClass>().named(CLASS) {
            self.effects.delete(class.as_ref(), None).await?;
        }
        Ok(())
    }
}
