//! Containers of a pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ContainerResizePolicy, EphemeralContainer, PodSpec, Volume};
use serde::Deserialize;

use super::spec::Owner;
use super::{environment, mounts, network, probes, resources, security};
use crate::field::Invalid;
use crate::kinds::check::{self, names, same};

pub const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const RESIZE_POLICIES: [&str; 2] = ["NotRequired", "RestartContainer"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

pub type Volumes<'a> = BTreeMap<&'a str, &'a Volume>;

/// What a container is seen against.
pub struct Around<'a> {
    pub spec: &'a PodSpec,
    /// Those without errors.
    pub volumes: &'a Volumes<'a>,
    pub owner: Owner<'a>,
}

/// Every container with its path, in upstream's order of visiting.
pub fn all(at: &str, spec: &PodSpec) -> Vec<(String, Container)> {
    let path = |list: &str, index: usize| format!("{at}.{list}[{index}]");
    let init = spec.init_containers.iter().flatten().enumerate();
    let init = init.map(|(index, one)| (path("initContainers", index), one.clone()));
    let own = spec.containers.iter().enumerate();
    let own = own.map(|(index, one)| (path("containers", index), one.clone()));
    let ephemeral = spec.ephemeral_containers.iter().flatten().enumerate();
    let ephemeral = ephemeral.map(|(index, one)| (path("ephemeralContainers", index), plain(one)));
    init.chain(own).chain(ephemeral).collect()
}

/// The part of an ephemeral container that all containers have.
pub fn plain(one: &EphemeralContainer) -> Container {
    Container::deserialize(same::json(one)).unwrap_or_default()
}

pub fn errors(at: &str, around: &Around<'_>) -> Vec<Invalid> {
    let spec = around.spec;
    let at_own = format!("{at}.containers");
    let (mut errors, mut taken) = (Vec::new(), BTreeSet::new());
    if spec.containers.is_empty() {
        errors.push(Invalid::required(at_own.as_str(), ""));
    }
    let grace = spec.termination_grace_period_seconds;
    for (index, one) in spec.containers.iter().enumerate() {
        let at = format!("{at_own}[{index}]");
        errors.extend(common_errors(&at, one, around));
        errors.extend(name_taken(&at, &one.name, &mut taken));
        errors.extend(probes::errors(&at, one, grace));
        errors.extend(restart_errors(&at, one));
    }
    errors.extend(network::port_conflicts(&at_own, &spec.containers));
    for (index, one) in spec.init_containers.iter().flatten().enumerate() {
        let list = format!("{at}.initContainers");
        let at = format!("{list}[{index}]");
        errors.extend(common_errors(&at, one, around));
        errors.extend(restart_errors(&at, one));
        errors.extend(name_taken(&at, &one.name, &mut taken));
        // Init containers run one by one, so only each for itself can want a port twice.
        errors.extend(network::port_conflicts(&list, std::slice::from_ref(one)));
        errors.extend(init_errors(&at, one, grace));
    }
    errors.extend(ephemeral_list_errors(&format!("{at}.ephemeralContainers"), around, taken));
    errors.extend(padded_images(at, around));
    errors
}

fn name_taken<'a>(at: &str, name: &'a str, taken: &mut BTreeSet<&'a str>) -> Option<Invalid> {
    (!taken.insert(name) && !name.is_empty()).then(|| Invalid::duplicate(format!("{at}.name"), name))
}

/// A template may still be filled in; an image of a pod is final.
fn padded_images(at: &str, around: &Around<'_>) -> Vec<Invalid> {
    if around.owner == Owner::Template {
        return Vec::new();
    }
    let lists = [
        ("containers", around.spec.containers.as_slice()),
        ("initContainers", around.spec.init_containers.as_deref().unwrap_or_default()),
    ];
    let each = |(list, containers): (&str, &[Container])| -> Vec<Invalid> {
        let wrong = |(index, one): (usize, &Container)| padded_image(&format!("{at}.{list}[{index}]"), one);
        containers.iter().enumerate().filter_map(wrong).collect()
    };
    lists.into_iter().flat_map(each).collect()
}

fn padded_image(at: &str, one: &Container) -> Option<Invalid> {
    let image = one.image.as_deref().unwrap_or_default();
    let text = "must not have leading or trailing whitespace";
    (image.trim() != image).then(|| Invalid::invalid(format!("{at}.image"), image, text))
}

fn common_errors(at: &str, one: &Container, around: &Around<'_>) -> Vec<Invalid> {
    let spec = around.spec;
    let mut errors = names::required_label(&format!("{at}.name"), &one.name);
    errors.extend(check::required(&format!("{at}.image"), one.image.as_deref()));
    let policy = one.termination_message_policy.as_deref();
    let field = format!("{at}.terminationMessagePolicy");
    errors.extend(check::required_one_of(&field, policy, &MESSAGE_POLICIES));
    errors.extend(network::ports(&format!("{at}.ports"), one.ports.as_deref().unwrap_or_default()));
    errors.extend(environment::errors(at, one));
    errors.extend(mounts::errors(at, one, around.volumes));
    let policy = one.image_pull_policy.as_deref();
    errors.extend(check::required_one_of(&format!("{at}.imagePullPolicy"), policy, &PULL_POLICIES));
    if let Some(needs) = &one.resources {
        errors.extend(resources::of_container(&format!("{at}.resources"), needs, spec));
    }
    let policies = one.resize_policy.as_deref().unwrap_or_default();
    errors.extend(resize_errors(&format!("{at}.resizePolicy"), policies, spec.restart_policy.as_deref()));
    if let Some(context) = &one.security_context {
        errors.extend(security::of_container(&format!("{at}.securityContext"), context, spec));
    }
    errors
}

/// Upstream leaves the index out of most of these paths.
fn resize_errors(at: &str, policies: &[ContainerResizePolicy], restart: Option<&str>) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, policy) in policies.iter().enumerate() {
        let (resource, action) = (policy.resource_name.as_str(), policy.restart_policy.as_str());
        if policies[..index].iter().any(|earlier| earlier.resource_name == resource) {
            errors.push(Invalid::duplicate(format!("{at}[{index}]"), resource));
        }
        errors.extend(check::required_one_of(at, Some(resource), &RESIZABLE));
        errors.extend(check::required_one_of(at, Some(action), &RESIZE_POLICIES));
        if restart == Some("Never") && action != "NotRequired" {
            let text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(Invalid::invalid(at, action, text));
        }
    }
    errors
}

/// A container's own policy, and the rules that need one.
fn restart_errors(at: &str, one: &Container) -> Vec<Invalid> {
    let rules = one.restart_policy_rules.as_deref().unwrap_or_default();
    let field = format!("{at}.restartPolicy");
    let mut errors: Vec<Invalid> = match one.restart_policy.as_deref() {
        None if rules.is_empty() => return Vec::new(),
        None => vec![Invalid::required(field, "must specify restartPolicy when restart rules are used")],
        Some(policy) => check::one_of(&field, policy, &RESTART_POLICIES).into_iter().collect(),
    };
    errors.extend(check::too_many(format!("{at}.restartPolicyRules"), rules.len(), RULES_MAX));
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("{at}.restartPolicyRules[{index}]");
        errors.extend(check::one_of(
            &format!("{at}.action"),
            &rule.action,
            &["Restart", "RestartAllContainers"],
        ));
        let Some(codes) = &rule.exit_codes else {
            errors.push(Invalid::required(format!("{at}.exitCodes"), "must be specified"));
            continue;
        };
        errors.extend(check::one_of(&format!("{at}.exitCodes.operator"), &codes.operator, &["In", "NotIn"]));
        let count = codes.values.as_ref().map_or(0, Vec::len);
        errors.extend(check::too_many(format!("{at}.exitCodes.values"), count, EXIT_CODES_MAX));
    }
    errors
}

/// Init containers that run to their end have no hooks and no probes.
fn init_errors(at: &str, one: &Container, grace: Option<i64>) -> Vec<Invalid> {
    if one.restart_policy.as_deref() == Some("Always") {
        return probes::errors(at, one, grace);
    }
    let set = [
        ("lifecycle", one.lifecycle.is_some()),
        ("livenessProbe", one.liveness_probe.is_some()),
        ("readinessProbe", one.readiness_probe.is_some()),
        ("startupProbe", one.startup_probe.is_some()),
    ];
    let set = set.into_iter().filter(|(_, set)| *set);
    let mut errors: Vec<Invalid> =
        set.map(|(field, _)| Invalid::forbidden(format!("{at}.{field}"), NOT_FOR_INIT)).collect();
    for (index, policy) in one.resize_policy.iter().flatten().enumerate() {
        if policy.restart_policy == "RestartContainer" {
            let at = format!("{at}.resizePolicy[{index}].restartPolicy");
            let text = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.push(Invalid::invalid(at, policy.restart_policy.as_str(), text));
        }
    }
    errors
}

fn ephemeral_list_errors<'a>(at: &str, around: &Around<'a>, mut taken: BTreeSet<&'a str>) -> Vec<Invalid> {
    let others = taken.clone();
    let mut errors = Vec::new();
    for (index, one) in around.spec.ephemeral_containers.iter().flatten().enumerate() {
        let (at, container) = (format!("{at}[{index}]"), plain(one));
        errors.extend(common_errors(&at, &container, around));
        errors.extend(padded_image(&at, &container));
        errors.extend(name_taken(&at, &one.name, &mut taken));
        let target = one.target_container_name.as_deref().unwrap_or_default();
        if !target.is_empty() && !others.contains(target) {
            errors.push(check::not_found(format!("{at}.targetContainerName"), target));
        }
        errors.extend(ephemeral_errors(&at, &container));
    }
    errors
}

/// What only containers that are part of the pod's work may have, in upstream's order.
fn ephemeral_errors(at: &str, one: &Container) -> Vec<Invalid> {
    let needs = one.resources.clone().unwrap_or_default();
    let set = [
        ("ports", one.ports.as_ref().is_some_and(|ports| !ports.is_empty())),
        ("resources", needs != Default::default()),
        ("resizePolicy", one.resize_policy.is_some()),
        ("restartPolicy", one.restart_policy.is_some()),
        ("restartPolicyRules", one.restart_policy_rules.is_some()),
        ("livenessProbe", one.liveness_probe.is_some()),
        ("readinessProbe", one.readiness_probe.is_some()),
        ("startupProbe", one.startup_probe.is_some()),
        ("lifecycle", one.lifecycle.is_some()),
    ];
    let set = set.into_iter().filter(|(_, set)| *set);
    let mut errors: Vec<Invalid> =
        set.map(|(field, _)| Invalid::forbidden(format!("{at}.{field}"), NOT_FOR_EPHEMERAL)).collect();
    for (index, mount) in one.volume_mounts.iter().flatten().enumerate() {
        let parts = [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)];
        let set = parts.into_iter().filter(|(_, path)| !path.as_deref().unwrap_or_default().is_empty());
        let field = |name: &str| format!("{at}.volumeMounts[{index}].{name}");
        errors.extend(set.map(|(name, _)| Invalid::forbidden(field(name), NOT_FOR_EPHEMERAL)));
    }
    errors
}
