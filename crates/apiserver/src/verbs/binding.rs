//! `pods/x/binding`: how a scheduler puts a pod on a node.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::create::place;
use super::input::{self, Input};
use super::precondition::{check_uid, check_version};
use super::update::{Tracking, change_tracked};
use super::{Call, Outcome, Reply, other};
use crate::core::Core;
use crate::field::Invalid;
use crate::metadata;
use crate::registry::{KindInfo, Part};
use crate::status::{Resource, Status};

const API_VERSION: &str = "v1";
const KIND: &str = "Binding";

pub fn applies(info: &KindInfo) -> bool {
    info.resource() == Resource { group: "", plural: "pods" }
}

/// The name of the call is the pod's.
pub async fn run(core: &Arc<Core>, call: &Call) -> Result<Reply, Status> {
    let Input { object: binding, warnings } = read(call)?;
    if metadata::name(&binding) != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let target = &binding["target"];
    let node = target["name"].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    let kind = target["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(Invalid::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(Invalid::required("target.name", ""));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", KIND, call.name(), &errors));
    }
    let now = metadata::timestamp(core.clock.now());
    // The whole pod is written, so its status counts as part of the change.
    // Nobody owns an assignment.
    let make = |old: &Value| {
        check_uid(call, &binding, old)?;
        check_version(call, &binding, old)?;
        assigned(old, node, &binding, &now)
    };
    change_tracked(core, call, Part::Binding, Tracking::Done, make).await?;
    let status = Status::new(StatusCode::CREATED, "", "");
    Ok(Reply { outcome: Outcome::Status { code: StatusCode::CREATED, status }, warnings })
}

/// The binding in the body of a call, which is about a pod.
fn read(call: &Call) -> Result<Input, Status> {
    let body = input::parse(call)?;
    if let Some((kind, version, why)) = input::foreign_to(("", API_VERSION, KIND), &body) {
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {KIND}: {why}"
        )));
    }
    let mut input = other::decode(call, body, API_VERSION, KIND)?;
    place(&mut input.object, true, call.namespace.as_deref().unwrap_or_default())?;
    Ok(input)
}

fn assigned(pod: &Value, node: &str, binding: &Value, now: &Value) -> Result<Value, Status> {
    const RESOURCE: Resource<'static> = Resource { group: "", plural: "pods/binding" };
    let name = metadata::name(pod);
    let conflict = |why: String| Err(Status::conflict(RESOURCE, name, &why));
    if metadata::deleting(pod) {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let current = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !current.is_empty() {
        return conflict(format!("pod {name} is already assigned to node {current:?}"));
    }
    if !pod["spec"]["schedulingGates"].as_array().is_none_or(Vec::is_empty) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = node.into();
    // Room that was made elsewhere is no longer wanted.
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    for field in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
            pod["metadata"][field][key] = value.clone();
        }
    }
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    let conditions = &mut pod["status"]["conditions"];
    match conditions.as_array_mut() {
        None => *conditions = json!([scheduled]),
        Some(all) => match all.iter_mut().find(|c| c["type"] == "PodScheduled") {
            Some(condition) => *condition = scheduled,
            None => all.push(scheduled),
        },
    }
    Ok(pod)
}
