//! CSIStorageCapacity: how much a driver could still provision, per class and topology.

use bowline_api::{CSIStorageCapacity, Meta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::check::same::immutable;
use super::check::{names, quantities, selectors};
use super::{Column, Names, Rules, column};
use crate::field::Invalid;

/// This kind has no table of its own upstream.
const COLUMNS: &[Column] = &[column::NAME, column::date("Created At", "When the object was created.")];

pub struct CSIStorageCapacityRules;

impl Rules for CSIStorageCapacityRules {
    type Object = CSIStorageCapacity;
    const NAMES: Names =
        Names { plural: "csistoragecapacities", singular: "csistoragecapacity", short: &[], categories: &[] };
    const NAMESPACED: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;

    fn validate(object: &CSIStorageCapacity) -> Vec<Invalid> {
        let topology = object.node_topology.as_ref();
        let mut errors: Vec<Invalid> =
            topology.map(|t| selectors::label_selector("nodeTopology", t)).unwrap_or_default();
        errors.extend(names::subdomain("storageClassName", &object.storage_class_name));
        errors.extend(object.capacity.as_ref().and_then(|c| quantities::non_negative("capacity", c)));
        errors
    }

    fn validate_update(new: &CSIStorageCapacity, old: &CSIStorageCapacity) -> Vec<Invalid> {
        let topology = immutable("nodeTopology", &new.node_topology, &old.node_topology);
        let class = immutable("storageClassName", &new.storage_class_name, &old.storage_class_name);
        topology.into_iter().chain(class).collect()
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(object: &CSIStorageCapacity, _now: jiff::Timestamp) -> Vec<Value> {
        let created = object.metadata.creation_timestamp.as_ref().map(|Time(at)| at.to_string());
        vec![object.name().into(), created.into()]
    }
}
