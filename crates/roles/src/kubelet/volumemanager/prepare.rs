//! What is remembered of a volume before it is looked at: who wants it, and since when it is waited for.

use std::collections::BTreeMap;

use bowline_api::volume;

use super::model::{Mode, Presence, Target, Want};
use super::role::Manager;

impl Manager {
    pub(super) fn remember(&self, unique_name: &str) {
        let asked = self.asked(unique_name);
        let Some((driver, handle)) = self.identity(unique_name, &asked) else { return };
        let (driver, handle) = (driver.as_str(), handle.as_str());
        let wanted = asked.iter().filter(|(_, a)| self.want(a) == Want::Mounted);
        let wanted: BTreeMap<Target, Mode> = wanted.map(|(target, a)| (target.clone(), a.mode)).collect();
        self.memory.expect(unique_name, driver, handle, &wanted);
        let promised = asked.values().filter_map(|a| self.claim_of(a.source()));
        if let Some(promised) = promised.map(|claim| volume::promised_bytes(&claim)).min() {
            self.memory.seed_size(unique_name, promised);
        }
        let Some(state) = self.memory.get(unique_name) else { return };
        let now = self.ports.host.uptime.uptime();
        let missing = self.drivers.get(driver).is_none();
        self.memory.driver_missing(unique_name, missing, now);
        for (target, mount) in &state.mounts {
            let waits = match self.want_of(target, asked.get(target)) {
                Want::Mounted => mount.presence != Presence::Present,
                Want::Gone => mount.presence != Presence::Absent,
                Want::AsItIs => false,
            };
            self.memory.waits(unique_name, target, waits, now);
        }
    }
}
