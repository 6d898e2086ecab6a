//! What a service may ask for.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use serde_json::json;

use super::{
    CLUSTER_IP, EXTERNAL_NAME, HEADLESS, LOAD_BALANCER, NODE_PORT, is_external, is_headless,
    needs_health_check, type_of,
};
use crate::field::{Invalid, Reason};
use crate::kinds::check::{self, addresses, go, names, same, selectors};
use crate::kinds::pod::probes::port_errors;

const TYPES: [&str; 4] = [CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const NOT_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

pub fn errors(spec: &ServiceSpec) -> Vec<Invalid> {
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    if ports.is_empty() && !is_headless(spec) && type_of(spec) != EXTERNAL_NAME {
        errors.push(Invalid::required("spec.ports", ""));
    }
    errors.extend(type_errors(spec));
    for (index, port) in ports.iter().enumerate() {
        errors.extend(one_port_errors(
            &format!("spec.ports[{index}]"),
            port,
            &ports[..index],
            ports.len() > 1,
        ));
    }
    errors.extend(selectors::labels("spec.selector", spec.selector.as_ref()));
    errors.extend(affinity_errors(spec));
    if type_of(spec) != EXTERNAL_NAME {
        errors.extend(cluster_ip_errors(spec));
    }
    for (index, ip) in spec.external_ips.iter().flatten().enumerate() {
        errors.extend(addresses::ip(&format!("spec.externalIPs[{index}]"), ip));
    }
    errors.extend(check::required_one_of("spec.type", spec.type_.as_deref(), &TYPES));
    errors.extend(port_list_errors(spec, ports));
    errors.extend(balancer_errors(spec));
    errors.extend(traffic_errors(spec));
    errors
}

fn type_errors(spec: &ServiceSpec) -> Vec<Invalid> {
    let kind = type_of(spec);
    if matches!(kind, LOAD_BALANCER | NODE_PORT) && is_headless(spec) {
        let text = format!("may not be set to 'None' for {kind} services");
        return vec![Invalid::invalid("spec.clusterIPs[0]", HEADLESS, text)];
    }
    if kind != EXTERNAL_NAME {
        return Vec::new();
    }
    let set = [
        ("spec.clusterIPs", spec.cluster_ips.as_ref().is_some_and(|ips| !ips.is_empty())),
        ("spec.ipFamilies", spec.ip_families.as_ref().is_some_and(|families| !families.is_empty())),
        ("spec.ipFamilyPolicy", spec.ip_family_policy.is_some()),
    ];
    let set = set.into_iter().filter(|(_, set)| *set);
    let mut errors: Vec<Invalid> =
        set.map(|(field, _)| Invalid::forbidden(field, "may not be set for ExternalName services")).collect();
    let name = spec.external_name.as_deref().unwrap_or_default();
    errors.extend(match name.strip_suffix('.').unwrap_or(name) {
        "" => vec![Invalid::required("spec.externalName", "")],
        name => names::subdomain("spec.externalName", name),
    });
    errors
}

fn one_port_errors(at: &str, port: &ServicePort, earlier: &[ServicePort], several: bool) -> Vec<Invalid> {
    let (field, name) = (format!("{at}.name"), port.name.as_deref().unwrap_or_default());
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.extend(several.then(|| Invalid::required(field, "")));
    } else {
        errors.extend(names::label(&field, name));
        if earlier.iter().any(|earlier| earlier.name.as_deref() == Some(name)) {
            errors.push(Invalid::duplicate(field, name));
        }
    }
    if !(1..=65535).contains(&port.port) {
        errors.push(Invalid::invalid(format!("{at}.port"), port.port, check::range_text(1, 65535)));
    }
    let protocol = port.protocol.as_deref();
    errors.extend(check::required_one_of(&format!("{at}.protocol"), protocol, &PROTOCOLS));
    if let Some(target) = &port.target_port {
        errors.extend(port_errors(&format!("{at}.targetPort"), target));
    }
    if let Some(protocol) = &port.app_protocol {
        errors.extend(names::qualified(&format!("{at}.appProtocol"), protocol));
    }
    errors
}

fn affinity_errors(spec: &ServiceSpec) -> Vec<Invalid> {
    let affinity = spec.session_affinity.as_deref();
    let wrong = check::required_one_of("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    let client = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = client.and_then(|client| client.timeout_seconds).map(i64::from);
    let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    let range = seconds
        .filter(|seconds| affinity == Some("ClientIP") && !(1..=AFFINITY_SECONDS_MAX).contains(seconds));
    let text = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
    wrong.into_iter().chain(range.map(|seconds| Invalid::invalid(at, seconds, text))).collect()
}

pub fn cluster_ip_errors(spec: &ServiceSpec) -> Vec<Invalid> {
    let at = "spec.clusterIPs";
    let ips = spec.cluster_ips.as_deref().unwrap_or_default();
    let listed = || same::json(&spec.cluster_ips);
    let mut errors = Vec::new();
    match (spec.cluster_ip.as_deref().unwrap_or_default(), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.push(Invalid::invalid(at, listed(), "must be empty when `clusterIP` is not specified"));
        }
        (_, None) => errors.push(Invalid::required(at, "")),
        (own, Some(first)) if own != first => {
            errors.push(Invalid::invalid(at, listed(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = spec.ip_families.as_deref().unwrap_or_default();
    for (index, family) in families.iter().enumerate() {
        let at = format!("spec.ipFamilies[{index}]");
        errors.extend(check::one_of(&at, family, &FAMILIES));
        if families[..index].contains(family) {
            errors.push(Invalid::duplicate(at, family.as_str()));
        }
    }
    let policy = spec.ip_family_policy.as_deref();
    errors.extend(policy.and_then(|policy| check::one_of("spec.ipFamilyPolicy", policy, &FAMILY_POLICIES)));
    for (index, ip) in ips.iter().enumerate() {
        match ip.as_str() {
            HEADLESS if index == 0 && ips.len() > 1 => {
                errors.push(Invalid::invalid(at, listed(), "'None' must be the first and only value"));
            }
            HEADLESS if index == 0 => {}
            ip => errors.extend(addresses::ip(&format!("{at}[{index}]"), ip)),
        }
    }
    if ips.len() > 2 {
        errors.push(Invalid::invalid(at, listed(), "may only hold up to 2 values"));
    }
    errors
}

fn port_list_errors(spec: &ServiceSpec, ports: &[ServicePort]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let set = |port: &ServicePort| port.node_port.unwrap_or(0) != 0;
    for (index, _) in ports.iter().enumerate().filter(|(_, port)| type_of(spec) == CLUSTER_IP && set(port)) {
        let text = "may not be used when `type` is 'ClusterIP'";
        errors.push(Invalid::forbidden(format!("spec.ports[{index}].nodePort"), text));
    }
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| set(port)) {
        let twin = |other: &ServicePort| other.protocol == port.protocol && other.node_port == port.node_port;
        if ports[..index].iter().any(twin) {
            errors.push(Invalid::duplicate(
                format!("spec.ports[{index}].nodePort"),
                port.node_port.unwrap_or(0),
            ));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let twin = |other: &ServicePort| other.protocol == port.protocol && other.port == port.port;
        if ports[..index].iter().any(twin) {
            // Upstream shows a port of its own, empty but for these two.
            let shown = json!({"protocol": port.protocol, "port": port.port});
            let at = format!("spec.ports[{index}]");
            errors.push(go::shown(Reason::Duplicate, &at, "core.v1.ServicePort", &shown, ""));
        }
    }
    errors
}

fn balancer_errors(spec: &ServiceSpec) -> Vec<Invalid> {
    let balanced = type_of(spec) == LOAD_BALANCER;
    let mut errors = Vec::new();
    let ranges = spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
    if !ranges.is_empty() && !balanced {
        errors.push(Invalid::forbidden("spec.LoadBalancerSourceRanges", NOT_BALANCED));
    }
    for (index, range) in ranges.iter().enumerate() {
        errors.extend(addresses::cidr(&format!("spec.LoadBalancerSourceRanges[{index}]"), range.trim()));
    }
    if spec.allocate_load_balancer_node_ports.is_some() && !balanced {
        errors.push(Invalid::forbidden("spec.allocateLoadBalancerNodePorts", NOT_BALANCED));
    }
    if let Some(class) = &spec.load_balancer_class {
        if balanced {
            errors.extend(names::qualified("spec.loadBalancerClass", class));
        } else {
            errors.push(Invalid::forbidden("spec.loadBalancerClass", NOT_BALANCED));
        }
    }
    errors
}

fn traffic_errors(spec: &ServiceSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let policy = spec.external_traffic_policy.as_deref().unwrap_or_default();
    let at = "spec.externalTrafficPolicy";
    if is_external(spec) {
        errors.extend(check::required_one_of(at, Some(policy), &["Cluster", "Local"]));
    } else if !policy.is_empty() {
        errors.push(Invalid::invalid(at, policy, "may only be set for externally-accessible services"));
    }
    let (at, port) = ("spec.healthCheckNodePort", spec.health_check_node_port.unwrap_or(0));
    if needs_health_check(spec) {
        if port == 0 {
            errors.push(Invalid::required(at, ""));
        } else if !(1..=65535).contains(&port) {
            errors.push(Invalid::invalid(at, port, check::range_text(1, 65535)));
        }
    } else if port != 0 {
        let text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(Invalid::invalid(at, port, text));
    }
    let policy = spec.internal_traffic_policy.as_deref();
    errors.extend(policy.and_then(|p| check::one_of("spec.internalTrafficPolicy", p, &["Cluster", "Local"])));
    let wish = spec.traffic_distribution.as_deref();
    errors.extend(wish.and_then(|wish| check::one_of("spec.trafficDistribution", wish, &DISTRIBUTIONS)));
    errors
}
