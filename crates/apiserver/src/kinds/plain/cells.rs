//! What `kubectl get` shows of single rows.

use jiff::Timestamp;
use serde_json::Value;

use super::items;
use crate::kinds::age;
use crate::metadata;

/// Longer lists are cut.
const LISTED_MAX: usize = 3;

fn name(object: &Value) -> Value {
    metadata::name(object).into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    let created = metadata::text(object, "creationTimestamp").parse().ok();
    age::since(created, now).into()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The first few, and how many more there are.
fn listed(all: &[String]) -> Value {
    match all.len() {
        0 => "<none>".into(),
        count if count <= LISTED_MAX => all.join(",").into(),
        count => format!("{} + {} more...", all[..LISTED_MAX].join(","), count - LISTED_MAX).into(),
    }
}

pub fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

pub fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(&object["subsets"]) {
        let addresses = || items(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        let ports = items(&subset["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = &port["port"];
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    vec![name(object), listed(&all), age(object, now)]
}

pub fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    };
    let ports: Vec<String> = items(&object["ports"]).iter().map(port).collect();
    let endpoints = items(&object["endpoints"]).iter();
    let addresses: Vec<String> =
        endpoints.flat_map(|one| items(&one["addresses"])).map(|address| text(address).to_owned()).collect();
    vec![
        name(object),
        object["addressType"].clone(),
        or_unset(&ports),
        or_unset(&addresses),
        age(object, now),
    ]
}

/// Upstream writes `<unset>` where a slice has nothing.
fn or_unset(all: &[String]) -> Value {
    if all.is_empty() { "<unset>".into() } else { listed(all) }
}

pub fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = status["used"][resource].as_str().unwrap_or("0");
        let list = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        list.push(format!("{resource}: {used}/{}", text(hard)));
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age(object, now)]
}

pub fn revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(&object["metadata"]["ownerReferences"]);
    let controller = owners.iter().find(|owner| owner["controller"] == true).map(|owner| {
        let kind = match text(&owner["apiVersion"]).split_once('/') {
            Some((group, _)) => format!("{}.{group}", text(&owner["kind"])),
            None => text(&owner["kind"]).to_owned(),
        };
        format!("{}/{}", kind.to_lowercase(), text(&owner["name"]))
    });
    let controller = controller.unwrap_or_else(|| "<none>".to_owned());
    vec![name(object), controller.into(), object["revision"].clone(), age(object, now)]
}

pub fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let reports = items(&status["currentMetrics"]);
    let metrics = items(&spec["metrics"]).iter().enumerate();
    let metrics: Vec<String> =
        metrics.map(|(index, metric)| measured(metric, reports.get(index).unwrap_or(&Value::Null))).collect();
    let metrics = match metrics.len() {
        0 => "<none>".to_owned(),
        count if count <= 2 => metrics.join(", "),
        count => format!("{} + {} more...", metrics[..2].join(", "), count - 2),
    };
    let number = |value: &Value| Value::from(value.as_i64().unwrap_or(0));
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        metrics.into(),
        spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |count| count.to_string()).into(),
        number(&spec["maxReplicas"]),
        number(&status["currentReplicas"]),
        age(object, now),
    ]
}

/// What was measured of what is aimed at, in upstream's four ways of saying so.
fn measured(metric: &Value, report: &Value) -> String {
    let kind = text(&metric["type"]);
    // The source stands in a field that is called like the type.
    let field: String =
        kind.chars().take(1).flat_map(char::to_lowercase).chain(kind.chars().skip(1)).collect();
    let (source, current) = (&metric[field.as_str()], &report[field.as_str()]["current"]);
    let shown = |value: &Value| value.as_str().unwrap_or("<unknown>").to_owned();
    let target = &source["target"];
    let of_resource = matches!(kind, "Resource" | "ContainerResource");
    let (have, want, note) = if let Some(average) = target["averageValue"].as_str() {
        let note = if of_resource || kind == "Pods" { "" } else { " (avg)" };
        (shown(&current["averageValue"]), average.to_owned(), note)
    } else if of_resource {
        let percent = |value: &Value, none: &str| value.as_i64().map_or(none.to_owned(), |n| format!("{n}%"));
        let have = percent(&current["averageUtilization"], "<unknown>");
        (have, percent(&target["averageUtilization"], "<auto>"), "")
    } else {
        (shown(&current["value"]), text(&target["value"]).to_owned(), "")
    };
    let label = if of_resource { format!("{}: ", text(&source["name"])) } else { String::new() };
    format!("{label}{have}/{want}{note}")
}

pub fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), object["handler"].clone(), age(object, now)]
}

pub fn resource_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (deleted, status) = (metadata::deleting(object), &object["status"]);
    let allocated = !status["allocation"].is_null();
    let states = [
        ("deleted", deleted),
        ("pending", !allocated && !deleted),
        ("allocated", allocated),
        ("reserved", allocated && !items(&status["reservedFor"]).is_empty()),
    ];
    let states: Vec<&str> = states.into_iter().filter(|(_, on)| *on).map(|(state, _)| state).collect();
    vec![name(object), states.join(",").into(), age(object, now)]
}

pub fn resource_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let cell = |value: &Value| Value::from(text(value));
    vec![
        name(object),
        cell(&spec["nodeName"]),
        cell(&spec["driver"]),
        cell(&spec["pool"]["name"]),
        age(object, now),
    ]
}
