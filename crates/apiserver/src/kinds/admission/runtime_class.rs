//! RuntimeClass: the class that a pod names exists, and the pod gets what the class asks for.

use std::collections::BTreeMap;

use bowline_api::quantity;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::api::node::v1::{RuntimeClass, Scheduling};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::status::{Resource, Status};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OWN_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

type Amounts = BTreeMap<String, Quantity>;

pub struct RuntimeClasses;

impl Admission for RuntimeClasses {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if !applies(request) {
            return Ok(());
        }
        let Some(class) = class_of(request, object, lister)? else { return Ok(()) };
        let spec = &mut object["spec"];
        if let Some(overhead) = &class.overhead {
            let fixed = overhead.pod_fixed.clone().unwrap_or_default();
            let own: Amounts = optional(&spec["overhead"])?;
            if !own.is_empty() && !equal(&fixed, &own) {
                return Err(refused(request, OTHER_OVERHEAD));
            }
            spec["overhead"] = json!(fixed);
        }
        if let Some(scheduling) = &class.scheduling {
            schedule(spec, scheduling, request)?;
        }
        Ok(())
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if !applies(request) {
            return Ok(());
        }
        let class = class_of(request, object, lister)?;
        let own: Amounts = optional(&object["spec"]["overhead"])?;
        let overhead = class.and_then(|class| class.overhead);
        match overhead.map(|overhead| overhead.pod_fixed.unwrap_or_default()) {
            Some(fixed) if !equal(&fixed, &own) => Err(refused(request, OTHER_OVERHEAD)),
            None if !own.is_empty() => Err(refused(request, OWN_OVERHEAD)),
            _ => Ok(()),
        }
    }
}

fn applies(request: &AdmissionRequest<'_>) -> bool {
    request.operation == Operation::Create && request.is("", "pods")
}

fn refused(request: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(Resource { group: request.group, plural: request.plural }, request.name, why)
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Status> {
    T::deserialize(value).map_err(|error| Status::bad_request(error.to_string()))
}

fn optional<T: DeserializeOwned + Default>(value: &Value) -> Result<T, Status> {
    Ok(typed::<Option<T>>(value)?.unwrap_or_default())
}

fn class_of(
    request: &AdmissionRequest<'_>,
    pod: &Value,
    lister: &dyn Lister,
) -> Result<Option<RuntimeClass>, Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
    let class = lister.get("node.k8s.io", "runtimeclasses", "", name);
    let missing = || refused(request, &format!("pod rejected: RuntimeClass {name:?} not found"));
    typed(&class.ok_or_else(missing)?).map(Some)
}

/// As amounts, however they are written.
fn equal(one: &Amounts, other: &Amounts) -> bool {
    let same = |(name, amount): (&String, &Quantity)| {
        other.get(name).is_some_and(|other| quantity::compare(amount, other).is_ok_and(|order| order.is_eq()))
    };
    one.len() == other.len() && one.iter().all(same)
}

/// The pod goes where its runtime is.
fn schedule(spec: &mut Value, scheduling: &Scheduling, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let mut selector: BTreeMap<String, String> = optional(&spec["nodeSelector"])?;
    for (key, value) in scheduling.node_selector.iter().flatten() {
        if let Some(own) = selector.insert(key.clone(), value.clone()).filter(|own| own != value) {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(refused(request, &why));
        }
    }
    let own: Vec<Toleration> = optional(&spec["tolerations"])?;
    let merged = merge(own, scheduling.tolerations.clone().unwrap_or_default());
    for (field, value) in [("nodeSelector", json!(selector)), ("tolerations", json!(merged))] {
        let empty = value.as_object().is_some_and(|map| map.is_empty())
            || value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            spec[field] = value;
        }
    }
    Ok(())
}

/// Those of both that no other one covers; of equal ones the first.
fn merge(mut all: Vec<Toleration>, others: Vec<Toleration>) -> Vec<Toleration> {
    all.extend(others);
    let mut merged: Vec<Toleration> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let earlier = merged.iter().any(|kept| covers(kept, one));
        let later = all[index + 1..].iter().any(|other| !alike(other, one) && covers(other, one));
        if !earlier && !later {
            merged.push(one.clone());
        }
    }
    merged
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

fn alike(one: &Toleration, other: &Toleration) -> bool {
    let texts =
        |of: &Toleration| [&of.key, &of.operator, &of.value, &of.effect].map(|field| text(field).to_owned());
    texts(one) == texts(other) && one.toleration_seconds == other.toleration_seconds
}

/// Whether all that the second tolerates is tolerated by the first.
fn covers(one: &Toleration, other: &Toleration) -> bool {
    if alike(one, other) {
        return true;
    }
    let every_key = text(&one.key).is_empty() && text(&one.operator) == "Exists";
    if text(&one.key) != text(&other.key) && !every_key {
        return false;
    }
    if text(&one.effect) != text(&other.effect) && !text(&one.effect).is_empty() {
        return false;
    }
    if text(&one.effect) == "NoExecute"
        && let Some(most) = one.toleration_seconds
        && other.toleration_seconds.is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match text(&one.operator) {
        "" | "Equal" => text(&other.operator) == "Equal" && text(&one.value) == text(&other.value),
        "Exists" => true,
        _ => false,
    }
}
