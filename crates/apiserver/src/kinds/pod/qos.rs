//! Quality of service: who gives way first when memory runs out.

use bowline_api::quantity::{compare, sign_of};
use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::kinds::check::quantities::Resources;

const COUNTED: [&str; 2] = ["cpu", "memory"];

pub fn class(spec: &PodSpec) -> &'static str {
    let of_containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let all: Vec<&ResourceRequirements> = match &spec.resources {
        Some(of_pod) => vec![of_pod],
        None => of_containers.filter_map(|c| c.resources.as_ref()).collect(),
    };
    let count = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let complete = spec.resources.is_some() || all.len() == count;
    if all.iter().all(|one| COUNTED.iter().all(|name| wants_nothing(one, name))) {
        "BestEffort"
    } else if complete && all.iter().all(|one| COUNTED.iter().all(|name| fixed(one, name))) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

fn amount<'a>(list: Option<&'a Resources>, name: &str) -> Option<&'a Quantity> {
    list?.get(name).filter(|amount| sign_of(amount).is_ok_and(|sign| sign.is_gt()))
}

fn wants_nothing(one: &ResourceRequirements, name: &str) -> bool {
    amount(one.requests.as_ref(), name).is_none() && amount(one.limits.as_ref(), name).is_none()
}

/// Gets exactly what it may use at most.
fn fixed(one: &ResourceRequirements, name: &str) -> bool {
    match (amount(one.requests.as_ref(), name), amount(one.limits.as_ref(), name)) {
        (Some(request), Some(limit)) => compare(request, limit).is_ok_and(|order| order.is_eq()),
        _ => false,
    }
}
