//! What single rows refuse.

use serde_json::Value;

use super::items;
use crate::field::Invalid;
use crate::kinds::check::{self, addresses};

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
