//! The behaviour: one object per class and segment, with what the driver says.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use bowline_api::{CSINode, CSIStorageCapacity, Meta, Node, StorageClass, bytes_of, quantity_of};
use bowline_machinery::Step;

use super::model::{Action, Measured, Observed, Pair, Segment, Settings};

type Decision = Step<Action, Infallible>;

pub fn decide(seen: &Observed) -> Decision {
    match seen {
        Observed::Pair(seen) => pair(seen),
        Observed::Stray(object) => Step::Do(Action::Delete(object.clone())),
        Observed::Topology { known, now } if known == now => Step::Done,
        Observed::Topology { .. } => Step::Do(Action::Adopt),
    }
}

fn pair(seen: &Pair) -> Decision {
    let serves = |class: &Arc<StorageClass>| is_published(&seen.settings, class);
    let wanted = seen.segment_exists && seen.class.as_ref().is_some_and(serves);
    // The oldest is the one that stays.
    let age = |object: &Arc<CSIStorageCapacity>| {
        (object.metadata.creation_timestamp.clone(), object.name().to_owned())
    };
    let mut objects: Vec<&Arc<CSIStorageCapacity>> = seen.objects.iter().collect();
    objects.sort_by_key(|object| age(object));
    match (wanted, &objects[..]) {
        (false, []) => Step::Done,
        (false, [first, ..]) => Step::Do(Action::Delete(Arc::clone(first))),
        (true, [_, .., last]) => Step::Do(Action::Delete(Arc::clone(last))),
        (true, []) => match seen.measured {
            None => Step::Do(Action::Ask),
            Some(measured) => Step::Do(Action::Create(measured)),
        },
        (true, [object]) => match seen.measured {
            None => Step::Do(Action::Ask),
            Some(measured) if is_current(&seen.settings, object, measured) => Step::Done,
            Some(measured) => Step::Do(Action::Update(Box::new(updated(&seen.settings, object, measured)))),
        },
    }
}

/// Whether a class gets objects. One whose binding mode is not said gets them, as upstream has it.
pub fn is_published(settings: &Settings, class: &StorageClass) -> bool {
    let immediate = class.volume_binding_mode.as_deref() == Some("Immediate");
    class.provisioner == settings.driver && (settings.immediate || !immediate)
}

fn is_current(settings: &Settings, object: &CSIStorageCapacity, measured: Measured) -> bool {
    let bytes = |quantity| bytes_of(quantity).ok();
    object.capacity.as_ref().and_then(bytes) == Some(measured.bytes)
        && object.maximum_volume_size.as_ref().and_then(bytes) == measured.largest_volume
        && is_owned(settings, object)
}

fn is_owned(settings: &Settings, object: &CSIStorageCapacity) -> bool {
    let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    settings.owner.as_ref().is_none_or(|ours| owners.iter().any(|owner| owner.uid == ours.uid))
}

/// An owner that is missing is added; those of others stay.
fn updated(settings: &Settings, object: &CSIStorageCapacity, measured: Measured) -> CSIStorageCapacity {
    let mut object = object.clone();
    object.capacity = Some(quantity_of(measured.bytes));
    object.maximum_volume_size = measured.largest_volume.map(quantity_of);
    if let Some(owner) = settings.owner.clone().filter(|_| !is_owned(settings, &object)) {
        object.metadata.owner_references.get_or_insert_default().push(owner);
    }
    object
}

/// The segments in which the driver has nodes. A node that lacks a label, or whose Node is not there, has none.
pub fn segments(driver: &str, csi_nodes: &[Arc<CSINode>], nodes: &[Arc<Node>]) -> BTreeSet<Segment> {
    let by_name: std::collections::BTreeMap<&str, &Arc<Node>> =
        nodes.iter().map(|node| (node.name(), node)).collect();
    let segment = |csi_node: &Arc<CSINode>| {
        let entry = csi_node.spec.drivers.iter().find(|entry| entry.name == driver)?;
        let node = by_name.get(csi_node.name())?;
        let keys = entry.topology_keys.as_deref().unwrap_or_default();
        keys.iter().map(|key| Some((key.clone(), node.label(key)?.to_owned()))).collect::<Option<Segment>>()
    };
    csi_nodes.iter().filter_map(segment).collect()
}
