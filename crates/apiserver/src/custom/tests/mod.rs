//! Definitions and their objects through the server: how kinds come, change and go.

mod fuzz;
mod life;
mod size;
mod versions;

use serde_json::{Value, json};

use crate::server::Server;
use crate::store::Store;
use crate::testing::*;

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub async fn server() -> Server {
    real_server(Store::memory()).await
}

pub fn version(name: &str, schema: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
    })
}

pub fn definition(plural: &str, kind: &str, versions: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "kind": kind, "shortNames": [format!("{plural}x")], "categories": ["all"]},
        },
    })
}

pub fn free() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub fn widgets() -> Value {
    definition("widgets", "Widget", &[version("v1", free())])
}

pub fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

pub fn condition(object: &Value, type_: &str) -> String {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.into_iter().find(|condition| condition["type"] == type_);
    found.map_or("none".into(), |c| {
        format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap())
    })
}
