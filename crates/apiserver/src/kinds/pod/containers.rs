//! Containers of a pod.

use std::collections::{BTreeMap, BTreeSet};

use bowline_api::quantity;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EphemeralContainer, PodSpec, ResourceRequirements, Volume,
};
use serde::Deserialize;

use super::mounts;
use crate::field::Invalid;
use crate::kinds::check::{self, names, quantities, same};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
/// Numbers of ports.
const PORTS: std::ops::RangeInclusive<i32> = 1..=65535;

pub type Volumes<'a> = BTreeMap<&'a str, &'a Volume>;

pub fn errors(spec: &PodSpec, volumes: &Volumes<'_>) -> Vec<Invalid> {
    if spec.containers.is_empty() {
        return vec![Invalid::required("spec.containers", "")];
    }
    let (mut errors, mut taken) = (Vec::new(), BTreeSet::new());
    for (index, one) in spec.containers.iter().enumerate() {
        let at = format!("spec.containers[{index}]");
        errors.extend(container_errors(&at, one, volumes));
        errors.extend(name_taken(&at, &one.name, &mut taken));
    }
    for (index, one) in spec.init_containers.iter().flatten().enumerate() {
        let at = format!("spec.initContainers[{index}]");
        errors.extend(container_errors(&at, one, volumes));
        errors.extend(init_errors(&at, one));
        errors.extend(name_taken(&at, &one.name, &mut taken));
    }
    let others = taken.clone();
    for (index, one) in spec.ephemeral_containers.iter().flatten().enumerate() {
        let at = format!("spec.ephemeralContainers[{index}]");
        errors.extend(container_errors(&at, &plain(one), volumes));
        errors.extend(ephemeral_errors(&at, one, &others));
        errors.extend(name_taken(&at, &one.name, &mut taken));
    }
    errors.extend(host_users_errors(spec));
    errors
}

/// The part of an ephemeral container that all containers have.
pub fn plain(one: &EphemeralContainer) -> Container {
    Container::deserialize(same::json(one)).unwrap_or_default()
}

fn name_taken<'a>(at: &str, name: &'a str, taken: &mut BTreeSet<&'a str>) -> Option<Invalid> {
    (!taken.insert(name)).then(|| Invalid::duplicate(format!("{at}.name"), name))
}

fn container_errors(at: &str, one: &Container, volumes: &Volumes<'_>) -> Vec<Invalid> {
    let mut errors = names::required_label(&format!("{at}.name"), &one.name);
    let image = one.image.as_deref().unwrap_or_default();
    errors.extend(check::required(&format!("{at}.image"), Some(image)));
    let policy = one.termination_message_policy.as_deref();
    let field = format!("{at}.terminationMessagePolicy");
    errors.extend(check::required_one_of(&field, policy, &MESSAGE_POLICIES));
    errors.extend(port_errors(&format!("{at}.ports"), one.ports.as_deref().unwrap_or_default()));
    for (index, variable) in one.env.iter().flatten().enumerate() {
        errors.extend(variable_error(&format!("{at}.env[{index}].name"), &variable.name));
    }
    errors.extend(mounts::errors(at, one, volumes));
    let policy = one.image_pull_policy.as_deref();
    errors.extend(check::required_one_of(&format!("{at}.imagePullPolicy"), policy, &PULL_POLICIES));
    let resources = one.resources.as_ref();
    errors.extend(resources.into_iter().flat_map(|r| resource_errors(&format!("{at}.resources"), r)));
    if image.trim() != image {
        let text = "must not have leading or trailing whitespace";
        errors.push(Invalid::invalid(format!("{at}.image"), image, text));
    }
    errors
}

fn variable_error(at: &str, name: &str) -> Option<Invalid> {
    if name.is_empty() {
        return Some(Invalid::required(at, ""));
    }
    let fine = name.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=');
    let text =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    (!fine).then(|| Invalid::invalid(at, name, text))
}

fn port_errors(at: &str, ports: &[ContainerPort]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let range = check::range_text(1, 65535);
    for (index, port) in ports.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() && ports[..index].iter().any(|p| p.name.as_deref() == Some(name)) {
            errors.push(Invalid::duplicate(format!("{at}.name"), name));
        }
        let number = port.container_port;
        if number == 0 {
            errors.push(Invalid::required(format!("{at}.containerPort"), ""));
        } else if !PORTS.contains(&number) {
            errors.push(Invalid::invalid(format!("{at}.containerPort"), number, range.as_str()));
        }
        let number = port.host_port.unwrap_or(0);
        if number != 0 && !PORTS.contains(&number) {
            errors.push(Invalid::invalid(format!("{at}.hostPort"), number, range.as_str()));
        }
        let protocol = port.protocol.as_deref();
        errors.extend(check::required_one_of(&format!("{at}.protocol"), protocol, &PROTOCOLS));
    }
    errors
}

/// No amount is negative and no request is above its limit.
fn resource_errors(at: &str, resources: &ResourceRequirements) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (name, limit) in resources.limits.iter().flatten() {
        errors.extend(quantities::non_negative(&format!("{at}.limits[{name}]"), limit));
    }
    for (name, request) in resources.requests.iter().flatten() {
        errors.extend(quantities::non_negative(&format!("{at}.requests[{name}]"), request));
        let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
        let above = |limit| quantity::compare(request, limit).is_ok_and(|order| order.is_gt());
        if let Some(limit) = limit.filter(|limit| above(limit)) {
            let text = format!("must be less than or equal to {name} limit of {}", limit.0);
            errors.push(Invalid::invalid(format!("{at}.requests"), request.0.as_str(), text));
        }
    }
    errors
}

/// Init containers that run to their end have no hooks and no probes.
fn init_errors(at: &str, one: &Container) -> Vec<Invalid> {
    if one.restart_policy.as_deref() == Some("Always") {
        return Vec::new();
    }
    let set = [
        ("lifecycle", one.lifecycle.is_some()),
        ("livenessProbe", one.liveness_probe.is_some()),
        ("readinessProbe", one.readiness_probe.is_some()),
        ("startupProbe", one.startup_probe.is_some()),
    ];
    let set = set.into_iter().filter(|(_, set)| *set);
    set.map(|(field, _)| Invalid::forbidden(format!("{at}.{field}"), NOT_FOR_INIT)).collect()
}

fn ephemeral_errors(at: &str, one: &EphemeralContainer, others: &BTreeSet<&str>) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let target = one.target_container_name.as_deref().unwrap_or_default();
    if !target.is_empty() && !others.contains(target) {
        errors.push(check::not_found(format!("{at}.targetContainerName"), target));
    }
    for (index, mount) in one.volume_mounts.iter().flatten().enumerate() {
        let parts = [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)];
        let set = parts.into_iter().filter(|(_, path)| !path.as_deref().unwrap_or_default().is_empty());
        let field = |name: &str| format!("{at}.volumeMounts[{index}].{name}");
        errors.extend(set.map(|(name, _)| Invalid::forbidden(field(name), NOT_FOR_EPHEMERAL)));
    }
    errors
}

/// Devices and the host's namespaces know no other users than the host's.
fn host_users_errors(spec: &PodSpec) -> Vec<Invalid> {
    if spec.host_users != Some(false) {
        return Vec::new();
    }
    let text = "when `hostUsers` is false";
    let (network, process, ipc) = (spec.host_network, spec.host_pid, spec.host_ipc);
    let shared = [("hostNetwork", network), ("HostPID", process), ("HostIPC", ipc)];
    let shared = shared.into_iter().filter(|(_, on)| *on == Some(true));
    let mut errors: Vec<Invalid> =
        shared.map(|(field, _)| Invalid::forbidden(format!("spec.{field}"), text)).collect();
    let ephemeral: Vec<Container> = spec.ephemeral_containers.iter().flatten().map(plain).collect();
    let lists = [
        ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
        ("containers", &spec.containers),
        ("ephemeralContainers", &ephemeral),
    ];
    for (list, containers) in lists {
        let with_device = |one: &Container| one.volume_devices.as_ref().is_some_and(|d| !d.is_empty());
        for (index, _) in containers.iter().enumerate().filter(|(_, one)| with_device(one)) {
            errors.push(Invalid::forbidden(format!("spec.{list}[{index}].volumeDevices"), text));
        }
    }
    errors
}
