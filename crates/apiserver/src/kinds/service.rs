//! Service: one address for many pods. Addresses and ports of nodes are handed out by an admission plugin.

mod spec;
mod update;

use bowline_api::Meta;
use k8s_openapi::api::core::v1::{
    ClientIPConfig, LoadBalancerStatus, Service, ServiceSpec, SessionAffinityConfig,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::{Column, DeleteReply, Names, Rules, age, column};
use crate::field::Invalid;

pub const CLUSTER_IP: &str = "ClusterIP";
pub const NODE_PORT: &str = "NodePort";
pub const LOAD_BALANCER: &str = "LoadBalancer";
pub const EXTERNAL_NAME: &str = "ExternalName";
/// The address of a service that wants none.
pub const HEADLESS: &str = "None";
/// How long a client is sent to the same pod, unless somebody says.
const AFFINITY_SECONDS: i32 = 10_800;

const COLUMNS: &[Column] = &[
    column::NAME,
    column::text("Type", "How the service is reached."),
    column::text("Cluster-IP", "Address inside the cluster."),
    column::text("External-IP", "Addresses from outside."),
    column::text("Port(s)", "Ports, and those of nodes that lead to them."),
    column::AGE,
    column::wide(column::text("Selector", "What finds the pods.")),
];

pub struct ServiceRules;

/// What a spec's type is called.
pub fn type_of(spec: &ServiceSpec) -> &str {
    spec.type_.as_deref().unwrap_or_default()
}

pub fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some(HEADLESS)
}

/// What is wrong with the addresses that a service brings along.
pub fn address_errors(spec: &Value) -> Vec<Invalid> {
    let spec: Result<ServiceSpec, _> = serde::Deserialize::deserialize(spec);
    spec.map(|spec| spec::cluster_ip_errors(&spec)).unwrap_or_default()
}

/// Whether anybody outside can reach it, and so cares from where.
fn is_external(spec: &ServiceSpec) -> bool {
    let addressed = spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    matches!(type_of(spec), NODE_PORT | LOAD_BALANCER) || type_of(spec) == CLUSTER_IP && addressed
}

fn needs_health_check(spec: &ServiceSpec) -> bool {
    type_of(spec) == LOAD_BALANCER && spec.external_traffic_policy.as_deref() == Some("Local")
}

impl Rules for ServiceRules {
    type Object = Service;
    const NAMES: Names =
        Names { plural: "services", singular: "service", short: &["svc"], categories: &["all"] };
    const NAMESPACED: bool = true;
    const STATUS: bool = true;
    const CREATE_ON_UPDATE: bool = true;
    const DELETE_REPLY: DeleteReply = DeleteReply::Object;
    const FIELD_LABELS: &'static [&'static str] = &["spec.clusterIP", "spec.type"];

    fn default_fields(service: &mut Service) {
        let spec = service.spec.get_or_insert_default();
        fill(spec);
        if type_of(spec) == LOAD_BALANCER {
            let status = service.status.as_mut().and_then(|status| status.load_balancer.as_mut());
            for ingress in status.into_iter().flat_map(|status| status.ingress.iter_mut().flatten()) {
                if ingress.ip.is_some() {
                    ingress.ip_mode.get_or_insert_with(|| "VIP".into());
                }
            }
        }
    }

    fn prepare_create(service: &mut Service, _now: jiff::Timestamp) {
        service.status = None;
    }

    fn prepare_update(new: &mut Service, old: &Service) {
        new.status = old.status.clone();
        let spec = new.spec.get_or_insert_default();
        update::settle(spec, &old.spec.clone().unwrap_or_default());
        if type_of(spec) != LOAD_BALANCER {
            let status = new.status.get_or_insert_default();
            status.load_balancer = Some(LoadBalancerStatus::default());
        }
    }

    fn prepare_status(new: &mut Service, old: &Service, _now: jiff::Timestamp) {
        new.spec = old.spec.clone();
    }

    fn validate(service: &Service) -> Vec<Invalid> {
        spec::errors(&service.spec.clone().unwrap_or_default())
    }

    fn validate_change(new: &Service, old: &Service) -> Vec<Invalid> {
        let (after, before) = (new.spec.clone().unwrap_or_default(), old.spec.clone().unwrap_or_default());
        let mut errors = update::errors(&after, &before);
        errors.extend(spec::errors(&after));
        errors
    }

    /// Names of services become names of hosts.
    fn name_errors(name: &str) -> Vec<String> {
        bowline_api::name::label_errors(name)
    }

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn cells(service: &Service, now: jiff::Timestamp) -> Vec<Value> {
        let spec = service.spec.clone().unwrap_or_default();
        let none = || "<none>".to_owned();
        let own = spec.cluster_ips.as_ref().and_then(|ips| ips.first().cloned());
        let selector = super::workload::shown_labels(spec.selector.as_ref());
        vec![
            service.name().into(),
            type_of(&spec).into(),
            own.unwrap_or_else(none).into(),
            outside(service, &spec).into(),
            ports(&spec).into(),
            age::age(&service.metadata, now).into(),
            selector.into(),
        ]
    }

    fn field_labels(service: &Service) -> Vec<(&'static str, String)> {
        let spec = service.spec.clone().unwrap_or_default();
        let values = [spec.cluster_ip.unwrap_or_default(), spec.type_.unwrap_or_default()];
        Self::FIELD_LABELS.iter().copied().zip(values).collect()
    }
}

fn fill(spec: &mut ServiceSpec) {
    let text = |field: &mut Option<String>, default: &str| {
        if field.as_deref().unwrap_or_default().is_empty() {
            *field = Some(default.into());
        }
    };
    text(&mut spec.session_affinity, "None");
    match spec.session_affinity.as_deref() {
        Some("None") => spec.session_affinity_config = None,
        Some("ClientIP") => {
            let config = spec.session_affinity_config.get_or_insert_with(SessionAffinityConfig::default);
            let client = config.client_ip.get_or_insert_with(ClientIPConfig::default);
            client.timeout_seconds.get_or_insert(AFFINITY_SECONDS);
        }
        _ => {}
    }
    text(&mut spec.type_, CLUSTER_IP);
    for port in spec.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
        let open = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::String(name)) => name.is_empty(),
            Some(IntOrString::Int(_)) => false,
        };
        if open {
            port.target_port = Some(IntOrString::Int(port.port));
        }
    }
    if is_external(spec) {
        text(&mut spec.external_traffic_policy, "Cluster");
    }
    if matches!(type_of(spec), NODE_PORT | LOAD_BALANCER | CLUSTER_IP) {
        spec.internal_traffic_policy.get_or_insert_with(|| "Cluster".into());
    }
    if type_of(spec) == LOAD_BALANCER {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
    let own = spec.cluster_ip.clone().filter(|ip| !ip.is_empty());
    if let Some(own) = own.filter(|_| spec.cluster_ips.as_ref().is_none_or(Vec::is_empty)) {
        spec.cluster_ips = Some(vec![own]);
    }
}

fn outside(service: &Service, spec: &ServiceSpec) -> String {
    let given = spec.external_ips.clone().unwrap_or_default();
    let listed = |ips: Vec<String>, none: &str| if ips.is_empty() { none.to_owned() } else { ips.join(",") };
    match type_of(spec) {
        CLUSTER_IP | NODE_PORT => listed(given, "<none>"),
        LOAD_BALANCER => {
            let status =
                service.status.as_ref().and_then(|status| status.load_balancer.clone()).unwrap_or_default();
            let ingress = status.ingress.into_iter().flatten();
            let mut all: Vec<String> = ingress.filter_map(|one| one.ip.or(one.hostname)).collect();
            all.sort();
            all.dedup();
            all.extend(given);
            listed(all, "<pending>")
        }
        EXTERNAL_NAME => spec.external_name.clone().unwrap_or_default(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(spec: &ServiceSpec) -> String {
    let ports = spec.ports.iter().flatten().map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or_default();
        match port.node_port.unwrap_or(0) {
            0 => format!("{}/{protocol}", port.port),
            node => format!("{}:{node}/{protocol}", port.port),
        }
    });
    let ports: Vec<String> = ports.collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}
