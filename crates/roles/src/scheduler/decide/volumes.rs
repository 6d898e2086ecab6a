//! Whether a node can reach or get every volume of a pod (reference kube-core.md 2.3 and 2.4).

use std::sync::Arc;

use bowline_api::{
    CSIStorageCapacity, Meta, Node, PersistentVolumeClaim, StorageClass, bytes_of, keys, selector, volume,
};

use super::super::model::ClaimSeen;
use super::Refusal;
use super::claims::{Stage, stage};
use crate::controllers::persistentvolume::decide::matching::{OnNode, on_node};

/// Claims that are not bound yet, smallest first, and where each gets its volume. Empty: the pod can go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    pub pending: Vec<(String, Source)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A volume that exists; `reserved` when it refers to the claim already.
    Volume { name: String, reserved: bool },
    /// One to be made; `selected` when the claim carries the node already.
    Provisioner { selected: bool },
}

pub(super) fn check(claims: &[ClaimSeen], node: &Node) -> Result<Plan, Vec<Refusal>> {
    let mut refusals = std::collections::BTreeSet::new();
    for seen in claims.iter().filter(|seen| stage(seen) == Stage::Bound) {
        match &seen.volume {
            None => drop(refusals.insert(Refusal::VolumeMissing)),
            Some(volume) if !selector::volume_reachable(volume, node) => {
                refusals.insert(Refusal::VolumeOutOfReach);
            }
            Some(_) => {}
        }
    }
    let mut plan = Plan::default();
    for (seen, claim) in delayed(claims) {
        match source(seen, claim, node, &plan) {
            Ok(source) => plan.pending.push((seen.name.clone(), source)),
            Err(refusal) => drop(refusals.insert(refusal)),
        }
    }
    if refusals.is_empty() { Ok(plan) } else { Err(refusals.into_iter().collect()) }
}

/// Smallest first, so that a small claim does not take the volume that only fits a large one.
fn delayed(claims: &[ClaimSeen]) -> Vec<(&ClaimSeen, &PersistentVolumeClaim)> {
    let delayed = claims.iter().filter(|seen| stage(seen) == Stage::Delayed);
    let mut delayed: Vec<_> = delayed.filter_map(|seen| Some((seen, seen.claim.as_deref()?))).collect();
    delayed.sort_by_key(|(seen, claim)| {
        (volume::requested_bytes(claim).unwrap_or(i64::MAX), seen.name.as_str())
    });
    // Two volumes of a pod may be the same claim.
    delayed.dedup_by_key(|(seen, _)| seen.name.as_str());
    delayed
}

fn source(
    seen: &ClaimSeen,
    claim: &PersistentVolumeClaim,
    node: &Node,
    plan: &Plan,
) -> Result<Source, Refusal> {
    match claim.annotation(keys::SELECTED_NODE) {
        Some(selected) if selected == node.name() => {
            // Its room may be gone from what is published because the volume is there already.
            return provisionable(seen, node).map(|()| Source::Provisioner { selected: true });
        }
        // Somebody chose another node, and a volume may be on its way there.
        Some(_) => return Err(Refusal::NothingToBind),
        None => {}
    }
    let taken: Vec<&str> = plan.pending.iter().filter_map(|(_, source)| source.volume()).collect();
    match on_node(claim, &seen.candidates, node, &taken) {
        OnNode::Found(found) => {
            let uid = volume::claim_ref(found).and_then(|reference| reference.uid.as_deref());
            Ok(Source::Volume { name: found.name().into(), reserved: uid == Some(claim.uid()) })
        }
        // The binder prefers what is reserved, so nothing else can be had here.
        OnNode::OutOfReach => Err(Refusal::NothingToBind),
        OnNode::Nothing => provision(seen, claim, node).map(|()| Source::Provisioner { selected: false }),
    }
}

impl Source {
    fn volume(&self) -> Option<&str> {
        match self {
            Self::Volume { name, .. } => Some(name),
            Self::Provisioner { .. } => None,
        }
    }
}

/// Whether a volume can be made for this node: allowed there, and enough room published.
fn provision(seen: &ClaimSeen, claim: &PersistentVolumeClaim, node: &Node) -> Result<(), Refusal> {
    provisionable(seen, node)?;
    match &seen.capacities {
        Some(published) if !published.iter().any(|room| has_room(room, claim, node)) => Err(Refusal::NoSpace),
        Some(_) | None => Ok(()),
    }
}

fn provisionable(seen: &ClaimSeen, node: &Node) -> Result<(), Refusal> {
    let makes = |class: &StorageClass| {
        !class.provisioner.is_empty() && class.provisioner != keys::NO_PROVISIONER && allowed(class, node)
    };
    if seen.class.as_deref().is_some_and(makes) { Ok(()) } else { Err(Refusal::NothingToBind) }
}

/// Terms are alternatives, requirements inside one must all hold; no terms allow every node, an empty one none.
fn allowed(class: &StorageClass, node: &Node) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    terms.is_empty()
        || terms.iter().any(|term| {
            let wanted = term.match_label_expressions.as_deref().unwrap_or_default();
            let holds = |key: &str, values: &[String]| {
                node.label(key).is_some_and(|label| values.iter().any(|value| value == label))
            };
            !wanted.is_empty() && wanted.iter().all(|e| holds(&e.key, &e.values))
        })
}

fn has_room(room: &Arc<CSIStorageCapacity>, claim: &PersistentVolumeClaim, node: &Node) -> bool {
    let here = room
        .node_topology
        .as_ref()
        .is_some_and(|topology| selector::matches(topology, node.meta().labels.as_ref()));
    let limit = room.maximum_volume_size.as_ref().or(room.capacity.as_ref()).map(bytes_of);
    match (limit, volume::requested_bytes(claim)) {
        (Some(Ok(limit)), Ok(wanted)) => here && limit >= wanted,
        _ => false,
    }
}
