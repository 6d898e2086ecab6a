//! What an earlier process left on this machine (reference kube-core.md 4.16). All of it is uncertain: the records say
//! that calls were made, not how they ended.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use bowline_api::name;
use bowline_host::Host;
use bowline_machinery::RunError;

use super::memory::Memory;
use super::paths::{Paths, VOL_DATA};
use super::record::Record;
use super::world::{Mode, Presence, Staging, Target};

/// Names below the directory of devices that are no volumes.
const NOT_VOLUMES: [&str; 2] = ["publish", "staging"];

/// Fills the memory from the records on disk.
pub async fn reconstruct(host: &Host, paths: &Paths, memory: &Memory) -> Result<(), RunError> {
    let scan = Scan { host, paths, memory };
    let failed = |path: &Path, source: io::Error| RunError::Io {
        what: "look for mounts of an earlier process in",
        path: path.display().to_string(),
        source,
    };
    let pods = host.disk.list(&paths.pods()).await.map_err(|e| failed(&paths.pods(), e))?;
    for uid in &pods {
        scan.mounts(uid).await.map_err(|e| failed(&paths.pod(uid), e))?;
    }
    scan.stages().await.map_err(|e| failed(&paths.plugin(), e))?;
    scan.devices(&pods).await.map_err(|e| failed(&paths.devices(), e))
}

struct Scan<'a> {
    host: &'a Host,
    paths: &'a Paths,
    memory: &'a Memory,
}

impl Scan<'_> {
    async fn mounts(&self, uid: &str) -> io::Result<()> {
        for dir in self.host.disk.list(&self.paths.pod_volumes(uid)).await? {
            let by_dir = Target { pod_uid: uid.to_owned(), spec_name: dir };
            let Some((volume, record)) = self.read(&self.paths.mount_record(&by_dir)).await? else {
                continue;
            };
            let spec_name = record.spec_name().unwrap_or(&by_dir.spec_name).to_owned();
            let target = Target { pod_uid: uid.to_owned(), spec_name };
            self.memory.set_mount(&volume, &target, Mode::Filesystem, Presence::Uncertain);
        }
        Ok(())
    }

    /// Upstream does not look here, and so forgets a volume when it dies between stage and publish.
    async fn stages(&self) -> io::Result<()> {
        let plugin = self.paths.plugin();
        for driver in self.host.disk.list(&plugin).await? {
            if plugin.join(&driver) == self.paths.devices() {
                continue;
            }
            for hash in self.host.disk.list(&plugin.join(&driver)).await? {
                let dir = plugin.join(&driver).join(hash);
                match self.read(&dir.join(VOL_DATA)).await? {
                    Some((volume, _)) => {
                        self.memory.set_stage(&volume, &Staging::Filesystem, Presence::Uncertain);
                    }
                    // No record, so no call was made: an empty directory at most, or somebody else's.
                    None => drop(self.host.disk.remove_dir(&dir).await),
                }
            }
        }
        Ok(())
    }

    async fn devices(&self, pods: &[String]) -> io::Result<()> {
        for spec_name in self.host.disk.list(&self.paths.devices()).await? {
            if NOT_VOLUMES.contains(&spec_name.as_str()) {
                continue;
            }
            let file = self.paths.device_data(&spec_name).join(VOL_DATA);
            let Some((volume, record)) = self.read(&file).await? else { continue };
            let spec_name = record.spec_name().unwrap_or(&spec_name).to_owned();
            self.memory.set_stage(&volume, &Staging::Block(spec_name.clone()), Presence::Uncertain);
            for target in self.device_targets(pods, &spec_name).await? {
                self.memory.set_mount(&volume, &target, Mode::Block, Presence::Uncertain);
            }
        }
        Ok(())
    }

    /// Every pod with a link, a mapped device or a published one.
    async fn device_targets(&self, pods: &[String], spec_name: &str) -> io::Result<BTreeSet<Target>> {
        let disk = &self.host.disk;
        let target = |uid: &str| Target { pod_uid: uid.to_owned(), spec_name: spec_name.to_owned() };
        let mapped = disk.list(&self.paths.device_map(spec_name)).await?;
        let published = disk.list(&self.paths.device_publish(spec_name)).await?;
        let mut targets: BTreeSet<Target> = mapped.iter().chain(&published).map(|uid| target(uid)).collect();
        for uid in pods {
            if disk.kind(&self.paths.device_link(&target(uid))).await?.is_some() {
                targets.insert(target(uid));
            }
        }
        Ok(targets)
    }

    /// A record with the volume it is about. One that cannot be read is left alone, and said so: without driver and
    /// handle nobody can take the volume down but the person who looks.
    async fn read(&self, file: &Path) -> io::Result<Option<(String, Record)>> {
        let record = match Record::read(self.host, file).await {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(file = %file.display(), %error, "unreadable record of a mount, left as it is");
                None
            }
        };
        let Some(record) = record.filter(Record::persistent) else { return Ok(None) };
        let (Some(driver), Some(handle)) = (record.driver(), record.handle()) else {
            tracing::error!(file = %file.display(), "record without driver or handle, left as it is");
            return Ok(None);
        };
        let volume = name::unique_volume(driver, handle);
        self.memory.found(&volume, driver, handle);
        Ok(Some((volume, record)))
    }
}
