//! Whether a pod fits a node, and what its volumes need there.

use bowline_api::volume;

use super::super::model::{NodeSeen, Observed};
use super::volumes::{self, Plan};
use super::{Refusal, node};

/// The plan for the pod's volumes on this node, or every reason of the first filter that objects.
pub(super) fn check(seen: &Observed, on: &NodeSeen) -> Result<Plan, Vec<Refusal>> {
    if let Some(refusal) = node::objection(&seen.pod, &on.node) {
        return Err(vec![refusal]);
    }
    if seen.claims.iter().any(|claim| {
        let exclusive = claim.claim.as_deref().is_some_and(|claim| {
            volume::claim_access_modes(claim).iter().any(|mode| mode == volume::READ_WRITE_ONCE_POD)
        });
        exclusive && !claim.ephemeral && claim.other_user.is_some()
    }) {
        return Err(vec![Refusal::InUseByAnotherPod]);
    }
    if over_limit(seen, on) {
        return Err(vec![Refusal::VolumeLimit]);
    }
    volumes::check(&seen.claims, &on.node)
}

/// A volume that the node already has costs nothing; a pod that brings none is never refused.
fn over_limit(seen: &Observed, on: &NodeSeen) -> bool {
    on.rooms.iter().any(|(driver, room)| {
        let new = seen.brings.get(driver).map_or(0, |brought| brought.difference(&room.used).count());
        new > 0 && room.used.len() + new > room.limit
    })
}
