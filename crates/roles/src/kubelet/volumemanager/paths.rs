//! Where things are below the kubelet's directory, exactly as upstream has them (reference kube-core.md 4.6).

use std::path::{Path, PathBuf};

use bowline_api::{keys, name};

use super::model::{Staging, Target};

/// Directories that the kubelet makes.
pub const DIR_MODE: u32 = 0o750;
/// What a later process needs to take a volume down.
pub const VOL_DATA: &str = "vol_data.json";

#[derive(Debug, Clone)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    pub fn new(kubelet_dir: &Path) -> Self {
        Self { root: kubelet_dir.to_owned() }
    }

    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// Below it, one directory per driver, and `volumeDevices`.
    pub fn plugin(&self) -> PathBuf {
        self.root.join("plugins").join(keys::CSI_PLUGIN)
    }

    pub fn devices(&self) -> PathBuf {
        self.plugin().join("volumeDevices")
    }

    /// Directory of a staged filesystem and its record.
    pub fn global(&self, driver: &str, handle: &str) -> PathBuf {
        self.plugin().join(driver).join(name::staging_hash(handle))
    }

    pub fn staging(&self, driver: &str, handle: &str, staging: &Staging) -> PathBuf {
        match staging {
            Staging::Filesystem => self.global(driver, handle).join("globalmount"),
            Staging::Block(spec_name) => self.devices().join("staging").join(escaped(spec_name)),
        }
    }

    pub fn staging_record(&self, driver: &str, handle: &str, staging: &Staging) -> PathBuf {
        match staging {
            Staging::Filesystem => self.global(driver, handle).join(VOL_DATA),
            Staging::Block(spec_name) => self.device_data(spec_name).join(VOL_DATA),
        }
    }

    /// Directories of a pod's filesystem volumes.
    pub fn pod_volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(keys::CSI_PLUGIN_ESCAPED)
    }

    pub fn pod_volume(&self, target: &Target) -> PathBuf {
        self.pod_volumes(&target.pod_uid).join(escaped(&target.spec_name))
    }

    pub fn mount(&self, target: &Target) -> PathBuf {
        self.pod_volume(target).join("mount")
    }

    pub fn mount_record(&self, target: &Target) -> PathBuf {
        self.pod_volume(target).join(VOL_DATA)
    }

    /// Links to a pod's devices.
    pub fn pod_devices(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumeDevices").join(keys::CSI_PLUGIN_ESCAPED)
    }

    pub fn device_link(&self, target: &Target) -> PathBuf {
        self.pod_devices(&target.pod_uid).join(escaped(&target.spec_name))
    }

    pub fn device(&self, spec_name: &str) -> PathBuf {
        self.devices().join(escaped(spec_name))
    }

    pub fn device_data(&self, spec_name: &str) -> PathBuf {
        self.device(spec_name).join("data")
    }

    /// The global map: one file per pod, with the device bound to it.
    pub fn device_map(&self, spec_name: &str) -> PathBuf {
        self.device(spec_name).join("dev")
    }

    pub fn mapped(&self, target: &Target) -> PathBuf {
        self.device_map(&target.spec_name).join(&target.pod_uid)
    }

    pub fn device_publish(&self, spec_name: &str) -> PathBuf {
        self.devices().join("publish").join(escaped(spec_name))
    }

    pub fn published_device(&self, target: &Target) -> PathBuf {
        self.device_publish(&target.spec_name).join(&target.pod_uid)
    }
}

/// What the path of a mount says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A filesystem of a pod.
    Published { pod_uid: String, directory: String },
    /// A staged filesystem; the directory is the hash of its handle.
    Staged { driver: String, directory: String },
    /// A device of a pod.
    Mapped { directory: String, pod_uid: String },
}

impl Paths {
    /// Where below the kubelet's directory a mount is, if it is where volumes are; not what is mounted inside of one.
    pub fn place(&self, mount: &Path) -> Option<Place> {
        let parts = |below: &Path| -> Option<Vec<String>> {
            let rest = mount.strip_prefix(below).ok()?;
            rest.components().map(|part| part.as_os_str().to_str().map(str::to_owned)).collect()
        };
        if let Some(parts) = parts(&self.pods()) {
            let [uid, volumes, plugin, directory, last] = &parts[..] else { return None };
            let ours = volumes == "volumes" && plugin == keys::CSI_PLUGIN_ESCAPED && last == "mount";
            return ours.then(|| Place::Published { pod_uid: uid.clone(), directory: directory.clone() });
        }
        if let Some(parts) = parts(&self.devices()) {
            let [directory, map, uid] = &parts[..] else { return None };
            let ours = map == "dev";
            return ours.then(|| Place::Mapped { directory: directory.clone(), pod_uid: uid.clone() });
        }
        let [driver, directory, last] = &parts(&self.plugin())?[..] else { return None };
        let ours = last == "globalmount";
        ours.then(|| Place::Staged { driver: driver.clone(), directory: directory.clone() })
    }
}

fn escaped(spec_name: &str) -> String {
    spec_name.replace('/', "~")
}
