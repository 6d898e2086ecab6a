//! One effect per action.

use bowline_api::{CSINode, Lease, Meta, Node};
use bowline_machinery::effect::{EffectError, Part};
use bowline_machinery::{Cache, Object};
use serde_json::{Value, json};

use super::model::{Action, NodeSeen, Observed};
use super::role::Status;

impl Status {
    pub(super) async fn perform(&self, action: Action, seen: Observed) -> Result<(), EffectError> {
        match (action, seen) {
            (Action::CreateLease(lease), _) => {
                let written = self.effects.create(&lease).await;
                self.renewed(written)
            }
            (Action::RenewLease(lease), _) => {
                let written = self.effects.replace(Part::Main, &lease).await;
                self.renewed(written)
            }
            (action, Observed::Node(seen)) => self.on_node(action, &seen).await,
            (action, Observed::Lease(_)) => {
                Err(EffectError::refused(format!("{action:?} does not concern the lease")))
            }
        }
    }

    async fn on_node(&self, action: Action, seen: &NodeSeen) -> Result<(), EffectError> {
        match action {
            Action::Register(node) => {
                let written = self.effects.create(node.as_ref()).await;
                self.fresh::<Node>(&self.nodes, node.as_ref(), written).await
            }
            Action::CreateCsiNode(object) => {
                let written = self.effects.create(&object).await;
                self.fresh::<CSINode>(&self.csi_nodes, &object, written).await
            }
            Action::DeleteCsiNode(object) => self.effects.delete(&object, None).await,
            Action::AcceptInUse(list) => {
                self.in_use.sent(&list);
                Ok(())
            }
            Action::PatchNode(patch) => self.patch(seen, Part::Main, patch).await,
            Action::PatchStatus(patch) => {
                self.patch(seen, Part::Status, patch).await?;
                self.memory.wrote_status(self.ports.host.uptime.uptime());
                Ok(())
            }
            Action::PublishInUse(list) => {
                let Some(node) = &seen.node else { return Ok(()) };
                self.in_use.sending(&list);
                // The version keeps a shorter list that was delayed on its way from landing after this one.
                let version = &node.metadata.resource_version;
                let patch =
                    json!({"metadata": {"resourceVersion": version}, "status": {"volumesInUse": list}});
                let written = self.effects.patch(Part::Status, node, patch).await;
                let landed = written.is_ok();
                self.fresh::<Node>(&self.nodes, node, written).await?;
                if landed {
                    self.in_use.sent(&list);
                }
                Ok(())
            }
            Action::CreateLease(_) | Action::RenewLease(_) => {
                Err(EffectError::refused(format!("{action:?} does not concern the node")))
            }
        }
    }

    /// After a conflict, or when the lease is gone, the next try reads it first.
    fn renewed(&self, written: Result<Lease, EffectError>) -> Result<(), EffectError> {
        match written {
            Ok(lease) => {
                self.memory.renewed(lease, self.ports.host.uptime.uptime());
                Ok(())
            }
            Err(error) => {
                self.memory.lease_unknown();
                Err(error)
            }
        }
    }

    /// Strategic: conditions are merged by type, so those of others stay.
    async fn patch(&self, seen: &NodeSeen, part: Part, patch: Value) -> Result<(), EffectError> {
        let Some(node) = &seen.node else { return Ok(()) };
        self.effects.patch_strategic::<Node>(part, node, patch).await.map(drop)
    }

    /// After a conflict the newest copy goes into the cache, and the next step decides on that. One that another process
    /// created is as good as ours.
    async fn fresh<K: Object>(
        &self,
        cache: &Cache<K>,
        object: &K,
        written: Result<K, EffectError>,
    ) -> Result<(), EffectError> {
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.conflict() => {
                match self.effects.get_live::<K>(object.namespace(), object.name()).await? {
                    Some(live) => cache.note(live),
                    None => return Err(error),
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
