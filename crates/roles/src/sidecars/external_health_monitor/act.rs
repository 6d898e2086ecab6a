//! One effect per action. The calls are questions: they change nothing, and one that fails is asked again.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_api::Meta;
use bowline_machinery::EffectError;
use bowline_machinery::csi::{Classes, call};
use bowline_proto::csi::v1::{
    ControllerGetVolumeRequest, ListVolumesRequest, ListVolumesResponse, VolumeCondition,
};
use tokio::time::Instant;

use super::model::{Action, Condition, Key, Node, Observed, Volume};
use super::role::{ABNORMAL, HealthMonitor, NODE_FAILED, NODE_RECOVERED, NORMAL};

/// What people read when a volume is well again.
const RECOVERED: &str = "The Volume returns to the healthy state";

impl HealthMonitor {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match (action, seen) {
            (Action::List, _) => self.list().await,
            (Action::Ask, Observed::Volume(volume)) => self.ask(&volume).await,
            (Action::TellAbnormal(message), Observed::Volume(volume)) => {
                if let Some(claim) = &volume.claim {
                    self.recorder.warning(claim.as_ref(), ABNORMAL, message);
                }
                self.told(&volume)
            }
            (Action::TellNormal, Observed::Volume(volume)) => {
                if let Some(claim) = &volume.claim {
                    self.recorder.normal(claim.as_ref(), NORMAL, RECOVERED);
                }
                self.told(&volume)
            }
            (Action::Settle, Observed::Volume(volume)) => self.told(&volume),
            (Action::TellNodeFailed, Observed::Node(node)) => self.tell_failed(&node),
            (Action::TellNodeRecovered, Observed::Node(node)) => self.tell_recovered(&node),
            (action, _) => Err(EffectError::refused(format!("{action:?} does not fit what was observed"))),
        }
    }

    fn told(&self, volume: &Volume) -> Result<(), EffectError> {
        self.memory.told(volume.object.name());
        Ok(())
    }

    async fn ask(&self, volume: &Volume) -> Result<(), EffectError> {
        let request = ControllerGetVolumeRequest { volume_id: volume.handle.clone() };
        let driver = &self.driver;
        let send = |request| async move { driver.controller().controller_get_volume(request).await };
        let (rpc, classes) = ("ControllerGetVolume", Classes::Default);
        let answer = call(&self.effects, rpc, &volume.handle, self.timeout, classes, request, send).await?;
        let condition = answer.status.and_then(|status| status.volume_condition);
        self.memory.answered(volume.object.name(), read(condition));
        Ok(())
    }

    /// All pages within one timeout, as upstream has it. What was listed before an error is not used: the next list is whole.
    async fn list(&self) -> Result<(), EffectError> {
        let (end, mut token, mut found) = (Instant::now() + self.timeout, String::new(), BTreeMap::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!("the driver did not list its volumes within {:?}", self.timeout);
                return Err(EffectError::unknown(why));
            }
            let answer = self.page(token.clone(), left).await?;
            for entry in answer.entries {
                let condition = entry.status.and_then(|status| status.volume_condition);
                found.extend(entry.volume.map(|volume| (volume.volume_id, read(condition))));
            }
            if answer.next_token.is_empty() {
                break;
            }
            if answer.next_token == token {
                return Err(EffectError::refused("ListVolumes answered twice with the same next_token"));
            }
            token = answer.next_token;
        }
        self.memory.set_listed(true);
        for (name, handle) in self.volumes_of_driver() {
            if let Some(condition) = found.get(&handle) {
                self.memory.answered(&name, condition.clone());
                self.queue.add(Key::Volume(name));
            }
        }
        Ok(())
    }

    async fn page(
        &self,
        starting_token: String,
        timeout: Duration,
    ) -> Result<ListVolumesResponse, EffectError> {
        let request = ListVolumesRequest { max_entries: 0, starting_token };
        let driver = &self.driver;
        let send = |request| async move { driver.controller().list_volumes(request).await };
        call(&self.effects, "ListVolumes", "volumes", timeout, Classes::Default, request, send).await
    }

    fn tell_failed(&self, node: &Node) -> Result<(), EffectError> {
        for (claim, pods) in &node.claims {
            let message = format!(
                "Pods: [ {} ] consuming PVC: {} in namespace: {} are now on a failed node: {}",
                pods.join(" "),
                claim.name(),
                claim.namespace(),
                node.name
            );
            self.recorder.warning(claim.as_ref(), NODE_FAILED, message);
        }
        self.memory.failed(&node.name, self.ports.host.uptime.uptime());
        Ok(())
    }

    /// A warning, as upstream has it: alerts are matched by type and reason.
    fn tell_recovered(&self, node: &Node) -> Result<(), EffectError> {
        for (claim, _) in &node.claims {
            self.recorder.warning(claim.as_ref(), NODE_RECOVERED, format!("Node: {} recovered", node.name));
        }
        self.memory.recovered(&node.name);
        Ok(())
    }
}

/// A driver with VOLUME_CONDITION that says nothing of a volume says that it is well.
fn read(condition: Option<VolumeCondition>) -> Condition {
    let condition = condition.unwrap_or_default();
    Condition { abnormal: condition.abnormal, message: condition.message }
}
