//! CSINode: the drivers that run on a node.

use bowline_api::{CSINode, Meta};
use k8s_openapi::api::storage::v1::CSINodeDriver;
use serde_json::Value;

use super::check::{self, go, names};
use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

const NODE_ID_MAX: usize = 256;

const COLUMNS: &[Column] =
    &[column::NAME, column::number("Drivers", "Number of drivers on the node."), column::AGE];

pub struct CSINodeRules;

impl Rules for CSINodeRules {
    type Object = CSINode;
    const NAMES: Names = Names { plural: "csinodes", singular: "csinode", short: &[], categories: &[] };
    const NAMESPACED: bool = false;
    const UNCONDITIONAL_UPDATE: bool = false;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;

    fn validate(node: &CSINode) -> Vec<Invalid> {
        let mut errors = Vec::new();
        for (index, driver) in node.spec.drivers.iter().enumerate() {
            let at = format!("spec.drivers[{index}]");
            errors.extend(driver_errors(&at, driver));
            if node.spec.drivers[..index].iter().any(|earlier| earlier.name == driver.name) {
                errors.push(Invalid::duplicate(format!("{at}.name"), driver.name.as_str()));
            }
            errors.extend(topology_errors(&at, driver));
        }
        errors
    }

    /// An entry changes only in how many volumes it takes; for anything else it has to go and come back.
    fn validate_update(new: &CSINode, old: &CSINode) -> Vec<Invalid> {
        let fixed = |driver: &CSINodeDriver| CSINodeDriver { allocatable: None, ..driver.clone() };
        let mut errors = Vec::new();
        for before in &old.spec.drivers {
            for after in new.spec.drivers.iter().filter(|after| after.name == before.name) {
                let (new, old) = (fixed(after), fixed(before));
                errors.extend(go::immutable("spec.drivers", "storage.v1.CSINodeDriver", &new, &old));
            }
        }
        errors
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(node: &CSINode, now: jiff::Timestamp) -> Vec<Value> {
        vec![node.name().into(), node.spec.drivers.len().into(), age::age(&node.metadata, now).into()]
    }
}

fn driver_errors(at: &str, driver: &CSINodeDriver) -> Vec<Invalid> {
    let mut errors = names::driver(&format!("{at}.name"), &driver.name);
    let id = driver.node_id.as_str();
    if id.is_empty() {
        errors.push(Invalid::required(format!("{at}.nodeID"), ""));
    } else if id.len() > NODE_ID_MAX {
        let text = format!("must be {NODE_ID_MAX} characters or less");
        errors.push(Invalid::invalid(format!("{at}.nodeID"), id, text));
    }
    let count = driver.allocatable.as_ref().and_then(|a| a.count);
    errors.extend(count.and_then(|n| check::non_negative(&format!("{at}.allocatable.count"), n.into())));
    errors
}

/// Upstream reports topology keys at the driver, not at the key.
fn topology_errors(at: &str, driver: &CSINodeDriver) -> Vec<Invalid> {
    let keys = driver.topology_keys.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        if key.is_empty() {
            errors.push(Invalid::required(at, ""));
        }
        if keys[..index].contains(key) {
            errors.push(Invalid::duplicate(at, key.as_str()));
        }
        errors.extend(names::qualified(at, key));
    }
    errors
}
