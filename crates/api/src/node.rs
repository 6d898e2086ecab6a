//! Readers of nodes.

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::keys;

/// Whether the Ready condition is True.
pub fn ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Whether it is Ready and free of the taint that a new node has. One that a person set stays until that person removes it.
pub fn started(node: &Node) -> bool {
    ready(node) && !taints(node).iter().any(|taint| taint.key == keys::TAINT_NOT_READY)
}

pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default()
}

/// Whether a person has declared the node out of service (by key only, as upstream).
pub fn out_of_service(node: &Node) -> bool {
    taints(node).iter().any(|t| t.key == keys::TAINT_OUT_OF_SERVICE)
}

/// Unique names of the volumes that the controller reports as attached.
pub fn volumes_attached(node: &Node) -> Vec<&str> {
    let attached = node.status.as_ref().and_then(|s| s.volumes_attached.as_deref()).unwrap_or_default();
    attached.iter().map(|v| v.name.as_str()).collect()
}

/// Unique names of the volumes that the kubelet may have mounted.
pub fn volumes_in_use(node: &Node) -> &[String] {
    node.status.as_ref().and_then(|s| s.volumes_in_use.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_has_started_without_its_first_taint_and_with_those_of_people() {
        let node = |ready: &str, taint: &str| -> Node {
            let taints = json!([{"key": taint, "effect": "NoSchedule"}]);
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            serde_json::from_value(json!({"spec": {"taints": taints}, "status": status})).unwrap()
        };
        assert!(started(&node("True", "dedicated")));
        assert!(!started(&node("True", keys::TAINT_NOT_READY)));
        assert!(!started(&node("False", "dedicated")));
    }
}
