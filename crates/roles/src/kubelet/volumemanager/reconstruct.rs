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
use super::paths::{Paths, Place, VOL_DATA};
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
        unless_failed(&paths.pod_volumes(uid), scan.mounts(uid).await);
    }
    unless_failed(&paths.plugin(), scan.stages().await);
    unless_failed(&paths.devices(), scan.devices(pods).await);
    unless_failed(&paths.pods(), scan.mount_table(pods).await);
    Ok(())
}

/// What cannot be read holds up nothing else: what is mounted there stays as it is.
fn unless_failed<T>(path: &Path, found: io::Result<T>) -> Option<T> {
    let failed = |error: &io::Error| {
        tracing::error!(path = %path.display(), %error, "cannot look for mounts of an earlier process");
    };
    found.inspect_err(failed).ok()
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
            unless_failed(&dir.join(&name), self.mount(uid, &name).await);
        }
        Ok(())
    }

    /// One publication, by the name of its directory.
    async fn mount(&self, uid: &str, directory: &str) -> io::Result<()> {
        let mut target = Target { pod_uid: uid.to_owned(), spec_name: directory.to_owned() };
        let volume = match self.read_record(&self.paths.mount_record(&target)).await {
            Some((driver, handle, record)) => {
                if let Some(spec_name) = record.spec_name() {
                    target.spec_name = spec_name.to_owned();
                }
                let volume = match record.inline() {
                    true => name::inline_volume(uid, &target.spec_name),
                    false => name::unique_volume(&driver, &handle),
                };
                self.memory.found(&volume, &driver, &handle);
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
        Ok(())
    }

    /// The mount table has the last word: what is mounted where volumes of ours are is known from here on, even if its
    /// directory could not be read. What belongs to pods that are not in our records is left alone.
    async fn mount_table(&self, pods: &[String]) -> io::Result<()> {
        let mounts = self.host.kernel.mounts().await.map_err(io::Error::other)?;
        for mount in mounts {
            match self.paths.place(&mount.target) {
                Some(Place::Published { pod_uid, directory }) if pods.contains(&pod_uid) => {
                    let target = Target { pod_uid, spec_name: directory };
                    if !self.memory.knows_mount(&target, &mount.target) {
                        unless_failed(&mount.target, self.mount(&target.pod_uid, &target.spec_name).await);
                    }
                }
                Some(Place::Mapped { directory, pod_uid }) if pods.contains(&pod_uid) => {
                    let target = Target { pod_uid, spec_name: directory };
                    if !self.memory.knows_mount(&target, &mount.target) {
                        self.mapped(target, &mount.target).await;
                    }
                }
                Some(Place::Staged { driver, directory }) => self.staged(&driver, &directory).await,
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// A mapped device whose directory could not be listed. Without a record and an object it is never unmapped.
    async fn mapped(&self, target: Target, mount: &Path) {
        let record = self.paths.device_data(&target.spec_name).join(VOL_DATA);
        let volume = self.read(&record).await.map(|(volume, _)| volume);
        match volume.or_else(|| self.named(&target.spec_name)) {
            Some(volume) => {
                let staging = Staging::Block(target.spec_name.clone());
                self.memory.set_stage(&volume, &staging, Presence::Uncertain);
                self.memory.set_mount(&volume, &target, Mode::Block, Presence::Uncertain);
            }
            None => self.memory.add_stuck(&target.pod_uid, mount.to_owned()),
        }
    }

    /// A staged filesystem whose directory could not be listed.
    async fn staged(&self, driver: &str, directory: &str) {
        let dir = self.paths.plugin().join(driver).join(directory);
        let record = self.read(&dir.join(VOL_DATA)).await.map(|(volume, _)| volume);
        if let Some(volume) = record.or_else(|| self.hashed(driver, directory))
            && self.memory.get(&volume).is_none_or(|v| !v.stages.contains_key(&Staging::Filesystem))
        {
            self.memory.set_stage(&volume, &Staging::Filesystem, Presence::Uncertain);
        }
    }

    /// Upstream does not look here, and so forgets a volume when it dies between stage and publish.
    async fn stages(&self) -> io::Result<()> {
        let plugin = self.paths.plugin();
        for driver in self.directories(&plugin).await? {
            if plugin.join(&driver) == self.paths.devices() {
                continue;
            }
            let drivers = plugin.join(&driver);
            for hash in unless_failed(&drivers, self.directories(&drivers).await).unwrap_or_default() {
                let dir = drivers.join(&hash);
                let record = self.read(&dir.join(VOL_DATA)).await.map(|(volume, _)| volume);
                match record.or_else(|| self.hashed(&driver, &hash)) {
                    Some(volume) => {
                        self.memory.set_stage(&volume, &Staging::Filesystem, Presence::Uncertain);
                    }
                    None => drop(unless_failed(&dir, self.remove_stage(&dir).await)),
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
            // Without them the stage is not known either: it must not be taken down below a pod that has the device.
            let targets = self.device_targets(pods, &spec_name).await;
            let Some(targets) = unless_failed(&self.paths.device(&spec_name), targets) else { continue };
            self.memory.set_stage(&volume, &Staging::Block(spec_name.clone()), Presence::Uncertain);
            for target in targets {
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
            let path = dir.join(&name);
            if unless_failed(&path, self.host.disk.kind(&path).await).flatten() == Some(Kind::Dir) {
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
        let (driver, handle, record) = self.read_record(file).await?;
        Some((self.found(&driver, &handle), record))
    }

    /// A record with its driver and handle.
    async fn read_record(&self, file: &Path) -> Option<(String, String, Record)> {
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
        Some((driver.to_owned(), handle.to_owned(), record.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bowline_host::fake;

    use super::*;

    const EIO: i32 = 5;
    const DIR_MODE: u32 = 0o750;

    /// A staged filesystem of each of two drivers, and two devices that a pod has.
    async fn machine() -> (Host, Arc<fake::FakeHost>, Paths) {
        let (host, fake) = fake::host(3);
        let paths = Paths::new(Path::new("/var/lib/kubelet"));
        for driver in ["a.example", "b.example"] {
            let dir = paths.global(driver, "h");
            host.disk.create_dir_all(&dir, DIR_MODE).await.unwrap();
            Record::staged(driver, "h").write(&host, &dir.join(VOL_DATA)).await.unwrap();
        }
        for device in ["c", "d"] {
            let dir = paths.device_data(device);
            host.disk.create_dir_all(&dir, DIR_MODE).await.unwrap();
            host.disk.create_dir_all(&paths.device_map(device), DIR_MODE).await.unwrap();
            host.disk.create_file(&paths.device_map(device).join("uid")).await.unwrap();
            let record = Record::device("c.example", device, "node", device);
            record.write(&host, &dir.join(VOL_DATA)).await.unwrap();
        }
        (host, fake, paths)
    }

    /// Reference 4.16: a pod's directory that cannot be listed hides no mount, and what is another's stays another's.
    #[tokio::test]
    async fn edge_4_16_the_mount_table_tells_of_what_cannot_be_listed() {
        let (host, fake, paths) = machine().await;
        let target = |uid: &str, name: &str| Target { pod_uid: uid.into(), spec_name: name.into() };
        for (uid, name) in [("uid", "recorded"), ("uid", "unknown"), ("other", "foreign")] {
            let target = target(uid, name);
            host.disk.create_dir_all(&paths.mount(&target), DIR_MODE).await.unwrap();
            host.kernel.bind(&paths.pods(), &paths.mount(&target), false).await.unwrap();
        }
        let own = target("uid", "recorded");
        let record = Record::mount("a.example", "h", "node", &own, false);
        record.write(&host, &paths.mount_record(&own)).await.unwrap();
        let device = |name: &str| paths.device_map(name).join("uid");
        host.kernel.bind(&device("d"), &device("c"), false).await.unwrap();
        // Every listing fails: of the pod's volumes, of the drivers, of the devices.
        for _ in 0..3 {
            fake.fail_later("list", 0, EIO);
        }
        let memory = Memory::default();
        reconstruct(&host, &paths, &["uid".to_owned()], &Cache::default(), &memory).await.unwrap();
        assert_eq!(memory.presence("kubernetes.io/csi/a.example^h", &own), Presence::Uncertain);
        assert_eq!(
            memory.presence("kubernetes.io/csi/c.example^c", &target("uid", "c")),
            Presence::Uncertain
        );
        assert_eq!(memory.stuck(), [("uid".to_owned(), paths.mount(&target("uid", "unknown")))]);
        assert!(memory.left("uid") && !memory.left("other"));
    }

    /// One directory that cannot be read keeps neither the kubelet from starting nor another volume from being found.
    #[tokio::test]
    async fn what_cannot_be_listed_holds_up_nothing_else() {
        let all = ["a.example^h", "b.example^h", "c.example^c", "c.example^d"];
        let table: [(&str, usize, &[&str]); 7] = [
            ("nothing is wrong", usize::MAX, &all),
            ("the drivers", 0, &["c.example^c", "c.example^d"]),
            ("one driver", 1, &["b.example^h", "c.example^c", "c.example^d"]),
            ("another driver", 2, &["a.example^h", "c.example^c", "c.example^d"]),
            ("the devices", 3, &["a.example^h", "b.example^h"]),
            ("who has one device", 4, &["a.example^h", "b.example^h", "c.example^d"]),
            ("who has another device", 6, &["a.example^h", "b.example^h", "c.example^c"]),
        ];
        for (what, list, expected) in table {
            let (host, fake, paths) = machine().await;
            if list != usize::MAX {
                fake.fail_later("list", list, EIO);
            }
            let memory = Memory::default();
            // The directory of the pod has no volumes with a filesystem.
            reconstruct(&host, &paths, &["uid".to_owned()], &Cache::default(), &memory).await.unwrap();
            let staged = |name: &String| memory.get(name).is_some_and(|state| !state.absent());
            let found: Vec<_> = memory.names().into_iter().filter(staged).collect();
            let expected: Vec<_> = expected.iter().map(|name| format!("kubernetes.io/csi/{name}")).collect();
            assert_eq!(found, expected, "{what}");
            assert_eq!(fake.planned(), [""; 0], "{what}");
        }
    }
}
