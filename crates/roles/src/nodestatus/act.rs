//! One effect per action.

use async_trait::async_trait;
use bowline_api::{Meta, Node};
use bowline_machinery::effect::{EffectError, Effects, Part};
use bowline_machinery::{Keyed, Object, Ports};
use serde_json::json;

use super::decide::decide;
use super::in_use::InUse;
use super::machine::Machine;
use super::run::Switch;
use super::world::{Action, Observed, Step, Why};

/// Writes about one node.
pub struct Status {
    pub ports: Ports,
    pub effects: Effects,
    pub node_name: String,
    pub machine: Machine,
    pub in_use: InUse,
    pub switch: Switch,
}

#[async_trait]
impl Keyed for Status {
    type Key = String;
    type Observed = Observed;
    type Action = Action;
    type Why = Why;

    fn name(&self) -> &'static str {
        "nodestatus"
    }

    async fn observe(&self, _: &String) -> Result<Option<Observed>, EffectError> {
        Ok(Some(self.seen()))
    }

    fn decide(&self, seen: &Observed) -> Step {
        decide(seen)
    }

    async fn act(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match action {
            Action::Register(node) => self.create(node.as_ref()).await,
            Action::CreateCsiNode(object) => self.create(&object).await,
            Action::CreateNamespace(namespace) => self.create(&namespace).await,
            Action::CreateLease(lease) => self.create(&lease).await,
            Action::DeleteCsiNode(object) => self.effects.delete(&object, None).await,
            Action::RenewLease(lease) => {
                let written = self.effects.replace(Part::Main, &lease).await;
                self.fresh(&lease, written).await
            }
            Action::AcceptInUse(list) => {
                self.in_use.sent(&list);
                Ok(())
            }
            Action::PatchNode(patch) => self.on_node(&seen, Part::Main, patch).await,
            Action::PatchStatus(patch) => self.on_node(&seen, Part::Status, patch).await,
            Action::SetTaints(taints) => {
                let version = seen.node.as_ref().and_then(|n| n.meta().resource_version.clone());
                // The list is written whole, so it must be the one that was read.
                let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
                let Some(node) = &seen.node else { return Ok(()) };
                let written = self.effects.patch(Part::Main, node, patch).await;
                self.fresh(node, written).await
            }
            Action::PublishInUse(list) => {
                self.in_use.sending(&list);
                let Some(node) = &seen.node else { return Ok(()) };
                let patch = json!({"status": {"volumesInUse": list}});
                self.effects.patch(Part::Status, node, patch).await?;
                self.in_use.sent(&list);
                Ok(())
            }
        }
    }
}

impl Status {
    /// Somebody was quicker: that is as good.
    async fn create<K: Object>(&self, object: &K) -> Result<(), EffectError> {
        let written = self.effects.create(object).await;
        self.fresh(object, written).await
    }

    /// Strategic: conditions are merged by type, so those of others stay.
    async fn on_node(
        &self,
        seen: &Observed,
        part: Part,
        patch: serde_json::Value,
    ) -> Result<(), EffectError> {
        let Some(node) = &seen.node else { return Ok(()) };
        self.effects.patch_strategic::<Node>(part, node, patch).await.map(drop)
    }

    /// After a conflict the newest copy goes into the cache, and the next step decides on that.
    async fn fresh<K: Object>(&self, object: &K, written: Result<K, EffectError>) -> Result<(), EffectError> {
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.conflict() => {
                match self.effects.get_live::<K>(object.namespace(), object.name()).await? {
                    Some(live) => self.ports.informers.of::<K>().note(live),
                    None => return Err(error),
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
