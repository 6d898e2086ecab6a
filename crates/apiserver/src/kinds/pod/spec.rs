//! What a pod may ask for, and a template in its stead: `at` is where the spec stands, e.g. `spec.template.spec`.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::containers::{self, Around};
use super::{claims, environment, network, resources, scheduling, security, volumes};
use crate::field::Invalid;
use crate::kinds::check::{self, names, selectors};
use crate::kinds::priorityclass;

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Whose spec it is. A template leaves more open, and its pods have no name yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The name is empty when it is yet to be generated.
    Pod(&'a str),
    Template,
}

pub fn errors(at: &str, owner: Owner<'_>, spec: &PodSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    if spec.termination_grace_period_seconds.is_none() {
        errors.push(Invalid::required(format!("{at}.terminationGracePeriodSeconds"), ""));
    }
    let all = spec.volumes.as_deref().unwrap_or_default();
    let (usable, wrong) = volumes::errors(&format!("{at}.volumes"), owner, all);
    errors.extend(wrong);
    errors.extend(claims::errors(&format!("{at}.resourceClaims"), spec));
    errors.extend(containers::errors(at, &Around { spec, volumes: &usable, owner }));
    errors.extend(resources::of_pod(at, spec));
    errors.extend(network::host_ports(at, owner, spec));
    errors.extend(policy_errors(at, spec));
    errors.extend(selectors::labels(&format!("{at}.nodeSelector"), spec.node_selector.as_ref()));
    errors.extend(security::of_pod(at, spec));
    errors.extend(scheduling::affinity(&format!("{at}.affinity"), spec.affinity.as_ref()));
    errors.extend(network::dns(&format!("{at}.dnsConfig"), spec));
    errors.extend(gate_errors(at, spec));
    let constraints = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    errors.extend(scheduling::spread(&format!("{at}.topologySpreadConstraints"), constraints));
    errors.extend(security::host_process(at, spec));
    errors.extend(security::host_users(at, spec));
    errors.extend(network::hostname_override(&format!("{at}.hostnameOverride"), spec));
    errors.extend(name_errors(at, spec));
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    errors.extend(scheduling::tolerations(&format!("{at}.tolerations"), tolerations));
    errors.extend(network::host_aliases(&format!("{at}.hostAliases"), spec));
    errors.extend(class_errors(at, spec));
    errors.extend(environment::file_volumes(at, spec));
    errors
}

fn policy_errors(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let (restart, dns) = (spec.restart_policy.as_deref(), spec.dns_policy.as_deref());
    let restart = check::required_one_of(&format!("{at}.restartPolicy"), restart, &RESTART_POLICIES);
    let dns = check::required_one_of(&format!("{at}.dnsPolicy"), dns, &DNS_POLICIES);
    restart.into_iter().chain(dns).collect()
}

fn gate_errors(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let at = format!("{at}.readinessGates[{index}].conditionType");
        errors.extend(names::qualified(&at, &gate.condition_type));
    }
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    for (index, gate) in gates.iter().enumerate() {
        let at = format!("{at}.schedulingGates[{index}]");
        errors.extend(names::qualified(&at, &gate.name));
        if gates[..index].contains(gate) {
            errors.push(Invalid::duplicate(at, gate.name.as_str()));
        }
    }
    errors
}

fn name_errors(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let account = spec.service_account_name.as_deref();
    let mut errors = names::optional_subdomain(&format!("{at}.serviceAccountName"), account);
    errors.extend(names::optional_subdomain(&format!("{at}.nodeName"), spec.node_name.as_deref()));
    let most = i64::from(i32::MAX);
    if let Some(seconds) = spec.active_deadline_seconds.filter(|seconds| !(1..=most).contains(seconds)) {
        let text = check::range_text(1, most);
        errors.push(Invalid::invalid(format!("{at}.activeDeadlineSeconds"), seconds, text));
    }
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        let name = name.as_deref().filter(|name| !name.is_empty());
        errors.extend(name.into_iter().flat_map(|name| names::label(&format!("{at}.{field}"), name)));
    }
    errors
}

fn class_errors(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let class = spec.priority_class_name.as_deref();
    let mut errors = names::optional_subdomain(&format!("{at}.priorityClassName"), class);
    let runtime = spec.runtime_class_name.as_deref();
    errors.extend(
        runtime.into_iter().flat_map(|name| names::subdomain(&format!("{at}.runtimeClassName"), name)),
    );
    let policy = spec.preemption_policy.as_deref();
    errors.extend(policy.and_then(|policy| {
        check::required_one_of(&format!("{at}.preemptionPolicy"), Some(policy), &priorityclass::POLICIES)
    }));
    errors.extend(resources::overhead(&format!("{at}.overhead"), spec.overhead.as_ref()));
    if let Some(os) = &spec.os {
        let at = format!("{at}.os");
        errors.extend(match os.name.as_str() {
            "" => Some(Invalid::required(format!("{at}.name"), "")),
            name => check::one_of(&at, name, &["linux", "windows"]),
        });
    }
    errors
}

/// What a template says about its pods.
pub fn template_errors(at: &str, template: &PodTemplateSpec) -> Vec<Invalid> {
    let meta = template.metadata.clone().unwrap_or_default();
    let spec = template.spec.clone().unwrap_or_default();
    // Upstream leaves the metadata out of these two paths.
    let mut errors = selectors::labels(&format!("{at}.labels"), meta.labels.as_ref());
    let annotations = format!("{at}.annotations");
    errors.extend(names::annotations(&annotations, meta.annotations.as_ref()));
    errors.extend(super::annotations::errors(&annotations, meta.annotations.as_ref(), &spec));
    errors.extend(self::errors(&format!("{at}.spec"), Owner::Template, &spec));
    if spec.ephemeral_containers.is_some_and(|containers| !containers.is_empty()) {
        let text = "ephemeral containers not allowed in pod template";
        errors.push(Invalid::forbidden(format!("{at}.spec.ephemeralContainers"), text));
    }
    errors
}
