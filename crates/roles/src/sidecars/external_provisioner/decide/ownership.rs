//! Which node makes the volume of a claim that names none (`--node-deployment`).

use bowline_api::{Meta, StorageClass, keys};
use bowline_machinery::Step;
use bowline_proto::csi::v1::GetCapacityRequest;
use std::sync::Arc;

use super::super::model::{Action, Bidding, Claim, OwnNode, Why};
use super::claim::creation;
use super::topology;

/// Whether provisioners of nodes may ask for claims of a class: only if it says so itself.
pub fn is_open_to_bids(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("Immediate")
}

/// After a delay, and if there is room, this node asks for the claim; the update that the API server takes first wins.
pub fn decide(seen: &Claim, class: &StorageClass, own: &OwnNode) -> Step<Action, Why> {
    if !is_open_to_bids(class) || !own.immediate_binding {
        return Step::Wait(Why::NoNodeSelected);
    }
    if seen.volume_exists || class.provisioner != seen.settings.driver {
        return Step::Done;
    }
    let allowed = class.allowed_topologies.as_deref().unwrap_or_default();
    let request = topology::Request {
        driver: &seen.settings.driver,
        claim: seen.object.name(),
        selected: Some(&own.name),
        allowed,
        strict: seen.settings.strict_topology,
        immediate: seen.settings.immediate_topology,
    };
    if seen.settings.topology
        && !allowed.is_empty()
        && topology::requirement(&request, &seen.cluster).is_err()
    {
        return Step::Wait(Why::NotHere);
    }
    match seen.attempt.bidding {
        Bidding::Waiting => Step::Wait(Why::Bidding),
        Bidding::Room => Step::Do(Action::SelectNode(own.name.clone())),
        Bidding::Due => match questions(seen, class, own) {
            Some((requests, needed)) => Step::Do(Action::AskRoom { requests, needed }),
            // What is wrong with the claim is told to people once a node has it.
            None => Step::Do(Action::SelectNode(own.name.clone())),
        },
    }
}

/// What the driver is asked: the call as it would be, for each place where the volume may be.
fn questions(seen: &Claim, class: &StorageClass, own: &OwnNode) -> Option<(Vec<GetCapacityRequest>, i64)> {
    let mut selected = seen.clone();
    Arc::make_mut(&mut selected.object).set_annotation(keys::SELECTED_NODE, &own.name);
    let request = creation(&selected, class).ok()?.request;
    let needed = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
    let places = request.accessibility_requirements.unwrap_or_default().requisite;
    let question = |place| GetCapacityRequest {
        volume_capabilities: request.volume_capabilities.clone(),
        parameters: request.parameters.clone(),
        accessible_topology: place,
    };
    let requests = match places.is_empty() {
        true => vec![question(None)],
        false => places.into_iter().map(|place| question(Some(place))).collect(),
    };
    (needed > 0).then_some((requests, needed))
}
