//! What is written: pods of about a kilobyte, as controllers make them.

use serde_json::{Value, json};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub const MERGE_PATCH: &str = "application/merge-patch+json";

pub fn name(number: usize) -> String {
    format!("web-{number:06}")
}

pub fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(number),
            "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "shard": (number % 16).to_string()},
            "annotations": {"checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main", "image": "example.test/web:1.2.3",
                "env": [{"name": "MODE", "value": "production"}, {"name": "SHARD", "value": (number % 16).to_string()}],
                "ports": [{"containerPort": 8080, "name": "http"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/var/lib/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{number}")}}],
        },
    })
}

/// A change that every server takes: one more annotation.
pub fn changed(pod: &mut Value, round: usize) {
    pod["metadata"]["annotations"]["round"] = round.to_string().into();
}

pub fn status(number: usize) -> Value {
    json!({"status": {"phase": "Running", "podIP": format!("10.1.{}.{}", number / 250 % 250, number % 250 + 1)}})
}

pub fn configmap(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("note-{number}")}, "data": {"a": "1"}})
}
