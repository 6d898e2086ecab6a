//! What containers, and pods as a whole, need and may use at most.

use std::collections::BTreeMap;

use bowline_api::{keys, quantity};
use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::claims;
use crate::field::Invalid;
use crate::kinds::check::quantities::{self, Resources};
use crate::kinds::check::{self, names};

/// Resources without a prefix that a container may ask for.
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Resources without a prefix that exist, for whomever.
const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];
const HUGE_PAGES: &str = "hugepages-";
/// What can be set for a pod as a whole, beside huge pages.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

/// Names, amounts, and requests within limits.
pub fn of_container(at: &str, resources: &ResourceRequirements, spec: &PodSpec) -> Vec<Invalid> {
    let mut errors = requirements(at, resources, container_name);
    let used = resources.claims.as_deref().unwrap_or_default();
    errors.extend(claims::used(&format!("{at}.claims"), used, spec));
    errors
}

fn requirements(
    at: &str,
    resources: &ResourceRequirements,
    name_errors: fn(&str, &str) -> Vec<Invalid>,
) -> Vec<Invalid> {
    let none = BTreeMap::new();
    let limits = resources.limits.as_ref().unwrap_or(&none);
    let requests = resources.requests.as_ref().unwrap_or(&none);
    let mut errors = Vec::new();
    for (list, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, amount) in amounts {
            let field = format!("{at}.{list}[{name}]");
            errors.extend(name_errors(&field, name));
            errors.extend(value_errors(&field, name, amount));
            if list == "requests" {
                errors.extend(bounded(at, name, amount, limits.get(name)));
            }
            errors.extend(page_error(&field, name, amount));
        }
    }
    let any = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| wanted(name));
    if any(|name| name.starts_with(HUGE_PAGES)) && !any(|name| OF_PODS.contains(&name)) {
        errors.push(Invalid::forbidden(at, "HugePages require cpu or memory"));
    }
    errors
}

/// Without a prefix, or with upstream's.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(keys::NATIVE_PREFIX)
}

fn can_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn resource_name(field: &str, name: &str) -> Vec<Invalid> {
    let errors = names::qualified(field, name);
    if errors.is_empty() && !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with(HUGE_PAGES)
    {
        return vec![Invalid::invalid(field, name, "must be a standard resource type or fully qualified")];
    }
    errors
}

fn container_name(field: &str, name: &str) -> Vec<Invalid> {
    let mut errors = resource_name(field, name);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            errors.push(Invalid::invalid(field, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(Invalid::invalid(field, name, "doesn't follow extended resource name standard"));
    }
    errors
}

fn pod_name(field: &str, name: &str) -> Vec<Invalid> {
    let errors = resource_name(field, name);
    if !errors.is_empty() || OF_PODS.contains(&name) || name.starts_with(HUGE_PAGES) {
        return errors;
    }
    check::one_of(field, name, &["cpu", "hugepages-", "memory"]).into_iter().collect()
}

/// Somebody else's resource, with a name that quotas can use too.
fn is_extended(name: &str) -> bool {
    const OF_QUOTAS: &str = "requests.";
    !name.starts_with(OF_QUOTAS) && names::qualified("", &format!("{OF_QUOTAS}{name}")).is_empty()
}

fn value_errors(field: &str, name: &str, amount: &Quantity) -> Vec<Invalid> {
    let negative = quantities::non_negative(field, amount);
    let whole = quantity::is_whole(amount).unwrap_or(true);
    let broken = (!whole && !is_native(name))
        .then(|| Invalid::invalid(field, amount.0.as_str(), "must be an integer"));
    negative.into_iter().chain(broken).collect()
}

fn bounded(at: &str, name: &str, request: &Quantity, limit: Option<&Quantity>) -> Option<Invalid> {
    let refused = |relation: &str, limit: &Quantity| {
        let text = format!("must be {relation} {name} limit of {}", limit.0);
        Invalid::invalid(format!("{at}.requests"), request.0.as_str(), text)
    };
    let Some(limit) = limit else {
        let text = "Limit must be set for non overcommitable resources";
        return (!can_overcommit(name)).then(|| Invalid::required(format!("{at}.limits"), text));
    };
    match quantity::compare(request, limit) {
        Ok(order) if order.is_ne() && !can_overcommit(name) => Some(refused("equal to", limit)),
        Ok(order) if order.is_gt() => Some(refused("less than or equal to", limit)),
        _ => None,
    }
}

/// Huge pages come whole.
fn page_error(field: &str, name: &str, amount: &Quantity) -> Option<Invalid> {
    let size = Quantity(name.strip_prefix(HUGE_PAGES)?.to_owned());
    let (size, bytes) = (quantity::bytes_of(&size).unwrap_or(0), quantity::bytes_of(amount).unwrap_or(0));
    let text = format!("{} is not positive integer multiple of {name}", amount.0);
    let fits = size > 0 && bytes % size == 0;
    (!fits).then(|| Invalid::invalid(field, amount.0.as_str(), text))
}

/// Limits and requests of the pod as a whole: above what its containers add up to.
pub fn of_pod(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let Some(resources) = &spec.resources else { return Vec::new() };
    let at = format!("{at}.resources");
    let mut errors = Vec::new();
    if resources.claims.is_some() {
        let text = "claims may not be set for Resources at pod-level";
        errors.push(Invalid::forbidden(format!("{at}.claims"), text));
    }
    errors.extend(requirements(&at, resources, pod_name));
    let used = resources.claims.as_deref().unwrap_or_default();
    errors.extend(claims::used(&format!("{at}.claims"), used, spec));
    let total = total_requests(spec);
    for (name, request) in resources.requests.iter().flatten() {
        let Some(total) = total.get(name) else { continue };
        if quantity::compare(total, request).is_ok_and(|order| order.is_gt()) {
            let text =
                format!("must be greater than or equal to aggregate container requests of {}", total.0);
            errors.push(Invalid::invalid(format!("{at}.requests[{name}]"), request.0.as_str(), text));
        }
    }
    errors
}

/// What the containers of a pod need together. Init containers run one by one, and restartable ones stay.
pub fn total_requests(spec: &PodSpec) -> Resources {
    let requests = |one: &k8s_openapi::api::core::v1::Container| {
        one.resources.as_ref().and_then(|resources| resources.requests.clone()).unwrap_or_default()
    };
    let add = |sum: &mut Resources, more: &Resources| {
        for (name, amount) in more {
            let before = sum.get(name).cloned().unwrap_or_else(|| Quantity("0".into()));
            if let Ok(after) = quantity::sum(&before, amount) {
                sum.insert(name.clone(), after);
            }
        }
    };
    let mut running = Resources::new();
    spec.containers.iter().for_each(|one| add(&mut running, &requests(one)));
    let (mut sidecars, mut peak) = (Resources::new(), Resources::new());
    for one in spec.init_containers.iter().flatten() {
        let own = requests(one);
        if one.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &own);
            raise(&mut peak, &now);
        }
    }
    raise(&mut running, &peak);
    running
}

/// The larger of two, each resource for itself.
fn raise(most: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        let larger =
            most.get(name).is_none_or(|have| quantity::compare(amount, have).is_ok_and(|o| o.is_gt()));
        if larger {
            most.insert(name.clone(), amount.clone());
        }
    }
}

/// What the runtime itself needs for a pod.
pub fn overhead(at: &str, overhead: Option<&Resources>) -> Vec<Invalid> {
    let each = |(name, amount): (&String, &Quantity)| {
        let field = format!("{at}.limits[{name}]");
        container_name(&field, name).into_iter().chain(value_errors(&field, name, amount)).collect::<Vec<_>>()
    };
    overhead.into_iter().flatten().flat_map(each).collect()
}
