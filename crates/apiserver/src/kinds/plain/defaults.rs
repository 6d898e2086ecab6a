//! What single rows fill in.

use serde_json::{Map, Value, json};

/// Sets a field of an object unless somebody did.
fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    let set = fields.get(field).is_some_and(|value| !value.is_null() && *value != "" && *value != 0);
    if !set {
        fields.insert(field.to_owned(), value.into());
    }
}

fn each<'a>(list: &'a mut Value) -> impl Iterator<Item = &'a mut Value> {
    list.as_array_mut().into_iter().flatten()
}

pub fn endpoints(object: &mut Value) {
    for subset in each(&mut object["subsets"]) {
        each(&mut subset["ports"]).for_each(|port| fill(port, "protocol", "TCP"));
    }
}

pub fn endpoint_slice(object: &mut Value) {
    for port in each(&mut object["ports"]) {
        fill(port, "name", "");
        fill(port, "protocol", "TCP");
    }
}

/// A limit that is not given is the largest allowed one; a request that is not given is the limit, or the smallest.
pub fn limit_range(object: &mut Value) {
    for item in each(&mut object["spec"]["limits"]).filter(|item| item["type"] == "Container") {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let amounts = item[from].as_object().cloned().unwrap_or_default();
            if let Some(target) = object_at(item, to) {
                for (name, amount) in amounts {
                    target.entry(name).or_insert(amount);
                }
            }
        }
    }
}

fn object_at<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let value = &mut object[field];
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

pub fn autoscaler(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "minReplicas", 1);
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    if spec["behavior"].is_null() {
        return;
    }
    let policy = |kind: &str, value: i32| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = [
        ("stabilizationWindowSeconds", json!(0)),
        ("policies", json!([policy("Pods", 4), policy("Percent", 100)])),
    ];
    let down = [("policies", json!([policy("Percent", 100)]))];
    for (direction, rules) in [("scaleUp", &up[..]), ("scaleDown", &down[..])] {
        let Some(given) = object_at(&mut spec["behavior"], direction) else { continue };
        given.entry("selectPolicy").or_insert_with(|| "Max".into());
        for (field, value) in rules {
            given.entry(*field).or_insert_with(|| value.clone());
        }
    }
}

pub fn resource_claim(object: &mut Value) {
    device_requests(&mut object["spec"]);
}

pub fn resource_claim_template(object: &mut Value) {
    device_requests(&mut object["spec"]["spec"]);
}

/// A request is for one device unless it says otherwise.
fn device_requests(spec: &mut Value) {
    for request in each(&mut spec["devices"]["requests"]) {
        if !request["exactly"].is_null() {
            device_count(&mut request["exactly"]);
        }
        each(&mut request["firstAvailable"]).for_each(device_count);
    }
}

fn device_count(request: &mut Value) {
    fill(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        fill(request, "count", 1);
    }
}
