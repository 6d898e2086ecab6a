//! What single rows refuse.

use std::collections::HashSet;

use k8s_openapi::api::node::v1::RuntimeClass;
use serde::Deserialize;
use serde_json::Value;

use super::items;
use crate::field::{Invalid, Reason};
use crate::kinds::check::{self, addresses, go, names, selectors};
use crate::kinds::pod::{resources, scheduling};

/// Addresses are addresses, and of several ports each has a name.
pub fn endpoints(object: &Value) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, subset) in items(&object["subsets"]).iter().enumerate() {
        let at = format!("subsets[{index}]");
        for list in ["addresses", "notReadyAddresses"] {
            for (index, address) in items(&subset[list]).iter().enumerate() {
                let ip = address["ip"].as_str().unwrap_or_default();
                errors.extend(addresses::ip(&format!("{at}.{list}[{index}].ip"), ip));
            }
        }
        let ports = items(&subset["ports"]);
        for (index, port) in ports.iter().enumerate().filter(|_| ports.len() > 1) {
            errors.extend(check::required(&format!("{at}.ports[{index}].name"), port["name"].as_str()));
        }
    }
    errors
}

pub fn revision(object: &Value) -> Vec<Invalid> {
    let number = object["revision"].as_i64().unwrap_or(0);
    let negative = check::non_negative("revision", number);
    let missing = match &object["data"] {
        Value::Object(_) => None,
        Value::Null => Some(Invalid::required("data", "data is mandatory")),
        _ => Some(Invalid::required("data", "data must be a valid JSON object")),
    };
    negative.into_iter().chain(missing).collect()
}

/// A handler, and what the pods of the class get in addition.
pub fn runtime_class(object: &Value) -> Vec<Invalid> {
    // The schema has let it through, so it is one.
    let class = RuntimeClass::deserialize(object).unwrap_or_default();
    let mut errors = names::required_label("handler", &class.handler);
    let overhead = class.overhead.and_then(|overhead| overhead.pod_fixed);
    errors.extend(resources::overhead("overhead", overhead.as_ref()));
    let Some(rules) = class.scheduling else { return errors };
    errors.extend(selectors::labels("scheduling.nodeSelector", rules.node_selector.as_ref()));
    let (at, tolerations) = ("scheduling.tolerations", rules.tolerations.unwrap_or_default());
    errors.extend(scheduling::tolerations(at, &tolerations));
    let mut seen = HashSet::new();
    for (index, one) in tolerations.iter().enumerate() {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        if !seen.insert([&one.key, &one.operator, &one.value, &one.effect].map(text)) {
            let field = format!("{at}[{index}]");
            errors.push(go::shown(Reason::Duplicate, &field, "core.v1.Toleration", one, ""));
        }
    }
    errors
}
