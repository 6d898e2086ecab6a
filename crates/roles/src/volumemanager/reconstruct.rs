//! What an earlier process left on this machine (reference kube-core.md 4.16). All of it is uncertain: the records say
//! that calls were made, not how they ended.
//!
//! # Crash safety
//!
//! A process may die between any two system calls, so a directory may stand without its record, or with one that was
//! never finished. Its name then leads to the volume's object, which knows driver and handle. What leads nowhere and
//! has nothing mounted is removed with the pod's directory; what is mounted is never forgotten (NODE-3).

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use bowline_api::{Meta, PersistentVolume, name, volume};
use bowline_host::Host;
use bowline_host::disk::Kind;
use bowline_machinery::{Cache, RunError};

use super::memory::Memory;
use super::model::{Mode, Presence, Staging, Target};
use super::paths::{Paths, VOL_DATA};
use super::record::Record;

/// Names below the directory of devices that are no volumes.
const NOT_VOLUMES: [&str; 2] = ["publish", "staging"];

/// Fills the memory from what is on disk of the pods that this installation has recorded.
pub async fn reconstruct(
    host: &Host,
    paths: &Paths,
    pods: &[String],
    volumes: &Cache<PersistentVolume>,
    memory: &Memory,
) -> Result<(), RunError> {
    let scan = Scan { host, paths, volumes, memory };
    for uid in pods {
        // One pod's directory that cannot be read holds up no other; what is mounted in it stays as it is.
        if let Err(error) = scan.mounts(uid).await {
            let dir = paths.pod_volumes(uid);
            tracing::error!(dir = %dir.display(), %error, "cannot look for mounts of an earlier process");
        }
    }
    let failed = |path: &Path, source: io::Error| RunError::Io {
        what: "look for mounts of an earlier process in",
        path: path.display().to_string(),
        source,
    };
    scan.stages().await.map_err(|e| failed(&paths.plugin(), e))?;
    scan.devices(pods).await.map_err(|e| failed(&paths.devices(), e))
}

struct Scan<'a> {
    host: &'a Host,
    paths: &'a Paths,
    volumes: &'a Cache<PersistentVolume>,
    memory: &'a Memory,
}

impl Scan<'_> {
    async fn mounts(&self, uid: &str) -> io::Result<()> {
        let dir = self.paths.pod_volumes(uid);
        for name in self.directories(&dir).await? {
            let mut target = Target { pod_uid: uid.to_owned(), spec_name: name };
            let volume = match self.read(&self.paths.mount_record(&target)).await {
                Some((volume, record)) => {
                    if let Some(spec_name) = record.spec_name() {
                        target.spec_name = spec_name.to_owned();
                    }
                    Some(volume)
                }
                None => self.named(&target.spec_name),
            };
            let mount = self.paths.mount(&target);
            match volume {
                Some(volume) => {
                    self.memory.set_mount(&volume, &target, Mode::Filesystem, Presence::Uncertain);
                }
                None if self.mounted(&mount).await? => self.memory.add_stuck(uid, mount),
                // Goes with the pod's directory.
                None => {}
            }
        }
        Ok(())
    }

    /// Upstream does not look here, and so forgets a volume when it dies between stage and publish.
    async fn stages(&self) -> io::Result<()> {
        let plugin = self.paths.plugin();
        for driver in self.directories(&plugin).await? {
            if plugin.join(&driver) == self.paths.devices() {
                continue;
            }
            for hash in self.directories(&plugin.join(&driver)).await? {
                let dir = plugin.join(&driver).join(&hash);
                let record = self.read(&dir.join(VOL_DATA)).await.map(|(volume, _)| volume);
                match record.or_else(|| self.hashed(&driver, &hash)) {
                    Some(volume) => {
                        self.memory.set_stage(&volume, &Staging::Filesystem, Presence::Uncertain);
                    }
                    None => self.remove_stage(&dir).await?,
                }
            }
        }
        Ok(())
    }

    /// What is left of a stage that leads to no volume: nobody can unstage it, but it keeps nothing either.
    async fn remove_stage(&self, dir: &Path) -> io::Result<()> {
        let mount = dir.join("globalmount");
        if self.mounted(&mount).await? {
            tracing::error!(
                mount = %mount.display(),
                "a staged volume whose record cannot be read stays mounted; `umount` it if nothing uses it"
            );
            return Ok(());
        }
        self.remove_all(&[&mount], &dir.join(VOL_DATA), &[dir]).await;
        Ok(())
    }

    async fn devices(&self, pods: &[String]) -> io::Result<()> {
        for spec_name in self.directories(&self.paths.devices()).await? {
            if NOT_VOLUMES.contains(&spec_name.as_str()) {
                continue;
            }
            let file = self.paths.device_data(&spec_name).join(VOL_DATA);
            let found = match self.read(&file).await {
                Some((volume, record)) => Some((volume, record.spec_name().unwrap_or(&spec_name).to_owned())),
                None => self.named(&spec_name).map(|volume| (volume, spec_name.clone())),
            };
            let Some((volume, spec_name)) = found else {
                self.remove_device(&spec_name).await;
                continue;
            };
            self.memory.set_stage(&volume, &Staging::Block(spec_name.clone()), Presence::Uncertain);
            for target in self.device_targets(pods, &spec_name).await? {
                self.memory.set_mount(&volume, &target, Mode::Block, Presence::Uncertain);
            }
        }
        Ok(())
    }

    /// Only empty directories and the record go: a device that is still mapped keeps its own.
    async fn remove_device(&self, spec_name: &str) {
        let staging = self.paths.staging("", "", &Staging::Block(spec_name.to_owned()));
        let (publish, map) = (self.paths.device_publish(spec_name), self.paths.device_map(spec_name));
        let (data, device) = (self.paths.device_data(spec_name), self.paths.device(spec_name));
        self.remove_all(&[&staging, &publish, &map], &data.join(VOL_DATA), &[&data, &device]).await;
    }

    /// Empty directories, then the record, then what stood around it; stops at the first that cannot go.
    async fn remove_all(&self, before: &[&Path], record: &Path, after: &[&Path]) {
        let disk = &self.host.disk;
        let removed = async {
            for dir in before {
                disk.remove_dir(dir).await?;
            }
            disk.remove_file(record).await?;
            for dir in after {
                disk.remove_dir(dir).await?;
            }
            io::Result::Ok(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(record = %record.display(), %error, "cannot remove what an earlier process left");
        }
    }

    /// Every pod with a link, a mapped device or a published one.
    async fn device_targets(&self, pods: &[String], spec_name: &str) -> io::Result<BTreeSet<Target>> {
        let disk = &self.host.disk;
        let target = |uid: &str| Target { pod_uid: uid.to_owned(), spec_name: spec_name.to_owned() };
        let mapped = disk.list(&self.paths.device_map(spec_name)).await?;
        let published = disk.list(&self.paths.device_publish(spec_name)).await?;
        let known = mapped.iter().chain(&published).filter(|uid| pods.contains(uid));
        let mut targets: BTreeSet<Target> = known.map(|uid| target(uid)).collect();
        for uid in pods {
            if disk.kind(&self.paths.device_link(&target(uid))).await?.is_some() {
                targets.insert(target(uid));
            }
        }
        Ok(targets)
    }

    /// Names of directories; a stray file among them is nobody's volume.
    async fn directories(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        if self.host.disk.kind(dir).await? != Some(Kind::Dir) {
            return Ok(found);
        }
        for name in self.host.disk.list(dir).await? {
            if self.host.disk.kind(&dir.join(&name)).await? == Some(Kind::Dir) {
                found.push(name);
            }
        }
        Ok(found)
    }

    async fn mounted(&self, path: &Path) -> io::Result<bool> {
        Ok(self.host.kernel.mount_at(path).await.map_err(io::Error::other)?.is_some())
    }

    /// The volume behind a PersistentVolume of this name.
    fn named(&self, spec_name: &str) -> Option<String> {
        self.of_object(&*self.volumes.named(spec_name)?)
    }

    /// The volume of a driver with this name of its staging directory.
    fn hashed(&self, driver: &str, hash: &str) -> Option<String> {
        let of_hash = |pv: &PersistentVolume| {
            volume::csi(pv)
                .is_some_and(|csi| csi.driver == driver && name::staging_hash(&csi.volume_handle) == hash)
        };
        self.of_object(self.volumes.list().into_iter().find(|pv| of_hash(pv))?.as_ref())
    }

    fn of_object(&self, pv: &PersistentVolume) -> Option<String> {
        let csi = volume::csi(pv)?;
        tracing::warn!(
            volume = pv.name(),
            "record of a mount is missing or unreadable; taken from the volume's object"
        );
        Some(self.found(&csi.driver, &csi.volume_handle))
    }

    fn found(&self, driver: &str, handle: &str) -> String {
        let volume = name::unique_volume(driver, handle);
        self.memory.found(&volume, driver, handle);
        volume
    }

    /// A record with the volume it is about; `None` when it is missing or cannot be used.
    async fn read(&self, file: &Path) -> Option<(String, Record)> {
        let record = match Record::read(self.host, file).await {
            Ok(record) => record?,
            Err(error) => {
                tracing::error!(file = %file.display(), %error, "unreadable record of a mount");
                return None;
            }
        };
        let (Some(driver), Some(handle)) = (record.driver(), record.handle()) else {
            tracing::error!(file = %file.display(), "record of a mount without driver or handle");
            return None;
        };
        record.persistent().then(|| (self.found(driver, handle), record.clone()))
    }
}
