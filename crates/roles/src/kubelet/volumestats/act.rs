//! One question, and what its answer is shown as.

use std::time::Duration;

use bowline_machinery::csi::{self, Classes};
use bowline_machinery::effect::EffectError;
use bowline_proto::csi::v1::volume_usage::Unit;
use bowline_proto::csi::v1::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse};

use super::memory::Answer;
use super::model::{Action, Amounts, Condition, Observed, PERIOD, Usage};
use super::role::Calculator;
use super::summary::COLLECTION_DURATION;
use crate::indexes::PODS_BY_UID;
use crate::kubelet::volumemanager::MountedVolume;

/// Limit of each question to a driver.
const TIMEOUT: Duration = Duration::from_secs(120);

impl Calculator {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        let (Action::Ask, Some(volume)) = (action, seen.mounted) else {
            self.stats.forget(&seen.key);
            return Ok(());
        };
        let answer = self.ask(&volume).await;
        let due = self.ports.host.uptime.uptime().saturating_add(self.jittered());
        // As upstream: a volume without statistics is asked again a period later, and shows none until then.
        let usage = answer.and_then(|answer| usage(&answer, self.health)).inspect_err(|error| {
            tracing::debug!(volume = volume.handle, %error, "no statistics of a volume");
        });
        let at = self.ports.host.clock.now();
        let told = usage.as_ref().ok().and_then(|usage| usage.condition.clone());
        let answer = usage.ok().map(|usage| Answer { at, volume: volume.clone(), usage });
        self.stats.asked(&seen.key, due, answer);
        if let Some(Condition { abnormal: true, message }) = told.filter(|_| self.health) {
            let text = format!("Volume {}: {message}", volume.volume);
            for pod in self.pods.indexed(PODS_BY_UID, &volume.pod_uid) {
                self.recorder.warning(pod.as_ref(), "VolumeConditionAbnormal", text.clone());
            }
        }
        Ok(())
    }

    async fn ask(&self, volume: &MountedVolume) -> Result<NodeGetVolumeStatsResponse, EffectError> {
        let missing = || EffectError::unknown(format!("driver {} is not registered", volume.driver));
        let driver = self.drivers.get(&volume.driver).ok_or_else(missing)?;
        let request = NodeGetVolumeStatsRequest {
            volume_id: volume.handle.clone(),
            volume_path: volume.path.display().to_string(),
            staging_target_path: String::new(),
        };
        let send = |request| async move { driver.connection.node().node_get_volume_stats(request).await };
        let effects = self.effects.clone().measured_on_node(&self.ports.metrics, &volume.driver);
        let object = format!("volume {}", volume.handle);
        let begun = self.ports.host.uptime.uptime();
        let rpc = "NodeGetVolumeStats";
        let answer = csi::call(&effects, rpc, &object, TIMEOUT, Classes::Default, request, send).await;
        let took = self.ports.host.uptime.uptime().saturating_sub(begun);
        self.ports.metrics.observe(&COLLECTION_DURATION, [&volume.driver], took);
        answer
    }

    /// The period, stretched by up to its own length.
    pub(super) fn jittered(&self) -> Duration {
        let stretch = self.ports.host.random.next_u64() % (PERIOD.as_millis() as u64);
        PERIOD + Duration::from_millis(stretch)
    }
}

/// Without usage there must at least be a condition, where that is looked at.
pub(super) fn usage(answer: &NodeGetVolumeStatsResponse, health: bool) -> Result<Usage, EffectError> {
    let of = |unit: Unit| {
        let found = answer.usage.iter().find(|usage| usage.unit == unit as i32);
        found.map(|usage| Amounts { available: usage.available, total: usage.total, used: usage.used })
    };
    let condition = answer.volume_condition.as_ref();
    let condition = condition.map(|c| Condition { abnormal: c.abnormal, message: c.message.clone() });
    let condition = condition.filter(|_| health);
    if answer.usage.is_empty() && condition.is_none() {
        return Err(EffectError::refused("failed to get usage from response. usage is nil"));
    }
    Ok(Usage { bytes: of(Unit::Bytes), inodes: of(Unit::Inodes), condition })
}
