//! Asking for a claim that names no node.

use bowline_api::{Meta, keys};
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Part, describe};
use bowline_proto::csi::v1::GetCapacityRequest;

use super::super::memory::Bid;
use super::super::model::Claim;
use super::super::role::Provisioner;

impl Provisioner {
    /// One place with enough room is enough. A driver that does not say does not keep the node from asking for the claim.
    pub(super) async fn ask_room(
        &self,
        seen: &Claim,
        requests: Vec<GetCapacityRequest>,
        needed: i64,
    ) -> Result<(), EffectError> {
        let mut room = false;
        for request in requests {
            let send = |request| async move { self.driver.controller().get_capacity(request).await };
            let (rpc, object, classes) =
                ("GetCapacity", describe(seen.object.as_ref()), Classes::Provisioner);
            match call(&self.effects, rpc, &object, self.timeout, classes, request, send).await {
                Ok(answer) => room = room || answer.available_capacity >= needed,
                Err(error) if error.lease_lost() => return Err(error),
                Err(error) => {
                    tracing::info!(claim = seen.object.key().to_string(), %error, "proceeding with becoming owner although the capacity check failed");
                    room = true;
                }
            }
            if room {
                break;
            }
        }
        let now = self.ports.host.uptime.uptime();
        // Without room it is asked again later: a volume may have been deleted.
        let due = if room { now } else { now + self.max_delay };
        self.memory.change(seen.object.uid(), |record| record.bid = Some(Bid { due, room }));
        Ok(())
    }

    /// A conflict says that another node was faster, or that the claim was edited: the next delay is longer.
    pub(super) async fn select_node(&self, seen: &Claim, node: &str) -> Result<(), EffectError> {
        let mut claim = seen.object.as_ref().clone();
        claim.set_annotation(keys::SELECTED_NODE, node);
        let done = self.effects.replace(Part::Main, &claim).await.map(drop);
        self.memory.change(claim.uid(), |record| {
            record.bid = None;
            record.lost_bids = if done.is_ok() { 0 } else { record.lost_bids.saturating_add(1) };
        });
        done
    }
}
