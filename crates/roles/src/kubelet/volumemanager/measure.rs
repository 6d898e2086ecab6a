//! Upstream's histogram of storage operations. A mount is one operation, from the first call to the driver to the last one;
//! with an error it ends, and the next try is another.

use std::time::Duration;

use bowline_machinery::effect::EffectError;

use super::act::Call;
use super::model::{Mode, Observed, Staging, Target};
use super::role::Manager;

impl Manager {
    /// When the operation began that this call is a part of, by the machine's uptime.
    pub(super) fn begins(&self, seen: &Observed, target: &Target, call: Call) -> Duration {
        let now = self.ports.host.uptime.uptime();
        match call {
            Call::Stage | Call::Publish => self.memory.mounting_since(&seen.volume, target, now),
            Call::Unpublish => now,
        }
    }

    pub(super) fn measure(
        &self,
        seen: &Observed,
        target: &Target,
        (call, mode, begun): (Call, Mode, Duration),
        done: &Result<(), EffectError>,
    ) {
        let operation = match (call, mode) {
            (Call::Stage | Call::Publish, Mode::Filesystem) => "volume_mount",
            (Call::Stage | Call::Publish, Mode::Block) => "map_volume",
            (Call::Unpublish, Mode::Filesystem) => "volume_unmount",
            (Call::Unpublish, Mode::Block) => "unmap_volume",
        };
        match (call, done) {
            // The mount goes on.
            (Call::Stage, Ok(())) => return,
            // Nothing failed: what the decision was made on has changed.
            (_, Err(error)) if error.conflict() => return,
            (Call::Unpublish, _) => {}
            _ => self.memory.mounting_ended(&seen.volume, target),
        }
        self.sample(seen, operation, begun, done.is_ok());
    }

    pub(super) fn measure_unstage(
        &self,
        seen: &Observed,
        staging: &Staging,
        begun: Duration,
        done: &Result<(), EffectError>,
    ) {
        let operation = match staging {
            Staging::Filesystem => "unmount_device",
            Staging::Block(_) => "unmap_device",
        };
        self.sample(seen, operation, begun, done.is_ok());
    }

    pub(super) fn sample(&self, seen: &Observed, operation: &str, begun: Duration, succeeded: bool) {
        let took = self.ports.host.uptime.uptime().saturating_sub(begun);
        self.ports.metrics.storage_operation(&seen.driver_name, operation, succeeded, took);
    }
}
