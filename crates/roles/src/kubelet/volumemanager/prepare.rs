//! What is remembered of a volume before it is looked at: who wants it, and since when it is waited for.

use std::collections::BTreeMap;

use bowline_api::name;

use super::model::{Mode, Presence, Target, Want};
use super::role::Manager;

impl Manager {
    pub(super) fn remember(&self, volume: &str) {
        let Some((driver, handle)) = name::split_unique_volume(volume) else { return };
        let asked = self.asked(volume);
        let wanted = asked.iter().filter(|(_, a)| self.want(a) == Want::Mounted);
        let wanted: BTreeMap<Target, Mode> = wanted.map(|(target, a)| (target.clone(), a.mode)).collect();
        self.memory.expect(volume, driver, handle, &wanted);
        let Some(state) = self.memory.get(volume) else { return };
        let now = self.ports.host.uptime.uptime();
        let missing = self.drivers.get(driver).is_none();
        self.memory.driver_missing(volume, missing, now);
        for (target, mount) in &state.mounts {
            let waits = match self.want_of(target, asked.get(target)) {
                Want::Mounted => mount.presence != Presence::Present,
                Want::Gone => mount.presence != Presence::Absent,
                Want::AsItIs => false,
            };
            self.memory.waits(volume, target, waits, now);
        }
    }
}
