//! From the caches, the mounts and the table of drivers to what is decided on.

use super::model::{DriverSeen, Observed};
use super::role::Calculator;
use crate::indexes::PODS_BY_UID;
use crate::kubelet::volumemanager::MountedVolume;

impl Calculator {
    pub(super) fn see(&self, key: &str) -> Observed {
        let mounted = self.mounted(key);
        let driver = mounted.as_ref().and_then(|mounted| self.drivers.get(&mounted.driver));
        let driver = match driver {
            None => DriverSeen::Missing,
            Some(driver) if driver.capabilities.get_volume_stats => DriverSeen::Able,
            Some(_) => DriverSeen::Unable,
        };
        let now = self.ports.host.uptime.uptime();
        let due = self.stats.due(key).unwrap_or(now);
        Observed { key: key.to_owned(), now, mounted, driver, due, shown: self.stats.shows(key) }
    }

    pub(super) fn mounted(&self, key: &str) -> Option<MountedVolume> {
        let (uid, volume) = key.split_once('/')?;
        let pods = self.pods.indexed(PODS_BY_UID, uid);
        let all = pods.iter().flat_map(|pod| self.mounts.mounted_volumes(pod));
        all.into_iter().find(|mounted| mounted.volume == volume)
    }
}
