//! Which volume a claim gets. Shared with the scheduler, which asks for one node at a time.

use std::sync::Arc;

use bowline_api::{Meta, Node, PersistentVolume, PersistentVolumeClaim, selector, volume};

/// The volume that is already reserved for this claim and fits it, or none.
///
/// A volume reserved by UID comes before one reserved by name only; then the fewest modes, the smallest, the first
/// by name, so that everybody who asks gets the same answer.
///
/// # Upstream
/// Class, selector, phase and reachability of a reserved volume are the reserver's business and not looked at.
/// Differs in that a reservation is looked for among all volumes before any free one is considered: otherwise a volume
/// made for this claim could lose to a free one that appeared in between.
pub fn reserved<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
) -> Option<&'a Arc<PersistentVolume>> {
    let names_claim = |v: &&Arc<PersistentVolume>| {
        volume::claim_ref(v).is_some_and(|reference| volume::refers_to(reference, claim))
    };
    let by_name_only =
        |v: &PersistentVolume| volume::claim_ref(v).is_none_or(|r| r.uid.as_deref().unwrap_or("").is_empty());
    let mut fitting: Vec<_> = volumes.iter().filter(names_claim).filter(|v| holds(claim, v)).collect();
    fitting.sort_by_key(|v| (by_name_only(v), preference(v)));
    fitting.into_iter().next()
}

/// The best free volume: fewest access modes, then smallest, then first by name.
///
/// BIND-2: size, modes, class, attributes class and selector hold.
pub fn free<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    usable: impl Fn(&PersistentVolume) -> bool,
) -> Option<&'a Arc<PersistentVolume>> {
    let class = volume::claim_class(claim).unwrap_or_default();
    let fits = |v: &&Arc<PersistentVolume>| {
        volume::claim_ref(v).is_none()
            && volume::volume_phase(v) == volume::AVAILABLE
            && volume::volume_class(v) == class
            && holds(claim, v)
            && selected(claim, v)
            && usable(v)
    };
    volumes.iter().filter(fits).min_by_key(|v| preference(v))
}

/// What must hold even for a reserved volume.
fn holds(claim: &PersistentVolumeClaim, candidate: &PersistentVolume) -> bool {
    !candidate.deleting()
        && large_enough(claim, candidate)
        && volume::volume_mode(candidate) == volume::claim_mode(claim)
        && volume::volume_attributes_class(candidate) == volume::claim_attributes_class(claim)
        && has_modes(claim, candidate)
}

fn selected(claim: &PersistentVolumeClaim, candidate: &PersistentVolume) -> bool {
    let wanted = claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    wanted.is_none_or(|wanted| selector::matches(wanted, candidate.meta().labels.as_ref()))
}

fn preference(candidate: &PersistentVolume) -> (usize, i64, String) {
    let bytes = volume::capacity_bytes(candidate).unwrap_or(i64::MAX);
    (modes_of(candidate).len(), bytes, candidate.name().to_owned())
}

fn modes_of(candidate: &PersistentVolume) -> std::collections::BTreeSet<&String> {
    volume::volume_access_modes(candidate).iter().collect()
}

/// A size that cannot be read fits nothing.
pub fn large_enough(claim: &PersistentVolumeClaim, candidate: &PersistentVolume) -> bool {
    match (volume::capacity_bytes(candidate), volume::requested_bytes(claim)) {
        (Ok(have), Ok(want)) => have >= want,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

pub fn has_modes(claim: &PersistentVolumeClaim, candidate: &PersistentVolume) -> bool {
    let have = volume::volume_access_modes(candidate);
    volume::claim_access_modes(claim).iter().all(|mode| have.contains(mode))
}

/// Why a volume that the claim names but that names nobody is refused, in upstream's words and order.
pub fn objection(claim: &PersistentVolumeClaim, named: &PersistentVolume) -> Option<String> {
    let class = volume::claim_class(claim).unwrap_or_default();
    let text = if named.deleting() {
        return Some(format!("the volume is marked for deletion \"{}\"", named.name()));
    } else if !large_enough(claim, named) {
        "requested PV is too small"
    } else if volume::volume_class(named) != class {
        "storageClassName does not match"
    } else if volume::volume_attributes_class(named) != volume::claim_attributes_class(claim) {
        "volumeAttributesClassName does not match"
    } else if volume::volume_mode(named) != volume::claim_mode(claim) {
        "incompatible volumeMode"
    } else if !has_modes(claim, named) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(text.into())
}

/// What the scheduler finds for a claim that waits for its first consumer, on one node.
#[derive(Debug, Clone, PartialEq)]
pub enum OnNode<'a> {
    Found(&'a Arc<PersistentVolume>),
    /// The volume reserved for the claim cannot be reached from the node: nothing else may be taken.
    OutOfReach,
    Nothing,
}

/// The volume for a claim on a node; volumes in `taken` are promised to other claims of the same pod.
pub fn on_node<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    node: &Node,
    taken: &[&str],
) -> OnNode<'a> {
    match reserved(claim, volumes) {
        Some(found) if selector::volume_reachable(found, node) => OnNode::Found(found),
        Some(_) => OnNode::OutOfReach,
        None => {
            let usable =
                |v: &PersistentVolume| selector::volume_reachable(v, node) && !taken.contains(&v.name());
            free(claim, volumes, usable).map_or(OnNode::Nothing, OnNode::Found)
        }
    }
}
