//! Nodes of an earlier start whose kubelets died with it and that are not asked for any more: no pod is to be scheduled there
//! while their containers are ended.

use std::sync::Arc;

use bowline_api::{Node, node};
use bowline_machinery::client::one_line;
use bowline_machinery::{Ports, Step};
use bowline_roles::controllers::nodelifecycle::{Action, Observed, decide};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::FurtherNode;

/// Reports them as upstream's node lifecycle controller does with nodes that fall silent. The scheduler must not run yet.
pub async fn mark(ports: &Ports, left_out: &[FurtherNode]) {
    let (nodes, now): (Api<Node>, _) = (Api::all(ports.client.clone()), Time(ports.host.clock.now()));
    for FurtherNode { name, .. } in left_out {
        if let Err(error) = mark_one(&nodes, name, &now).await {
            let error = one_line(&error);
            tracing::warn!(
                node = name,
                error,
                "cannot report the node as silent: pods may be scheduled there"
            );
        }
    }
}

async fn mark_one(nodes: &Api<Node>, name: &str, now: &Time) -> Result<(), kube::Error> {
    let Some(mut found) = nodes.get_opt(name).await? else { return Ok(()) };
    let parameters = PatchParams::default();
    if node::ready(&found) {
        let silent = json!({
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [silent]}}));
        found = nodes.patch_status(name, &parameters, &patch).await?;
    }
    let version = found.metadata.resource_version.clone();
    if let Step::Do(Action::SetTaints(taints)) = decide(&Observed { node: Arc::new(found) }) {
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        nodes.patch(name, &parameters, &Patch::Merge(patch)).await?;
    }
    Ok(())
}
