//! What a service keeps when a client leaves it out, what it loses with its type, and what may not change.

use k8s_openapi::api::core::v1::ServiceSpec;

use super::{EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_external, needs_health_check, type_of};
use crate::field::Invalid;
use crate::kinds::check::same;

fn has_address(spec: &ServiceSpec) -> bool {
    type_of(spec) != EXTERNAL_NAME
}

fn has_node_ports(spec: &ServiceSpec) -> bool {
    matches!(type_of(spec), NODE_PORT | LOAD_BALANCER)
}

/// Keeps what was handed out, unless the new type has no use for it.
pub fn settle(new: &mut ServiceSpec, old: &ServiceSpec) {
    let unset = |ip: &Option<String>| ip.as_deref().unwrap_or_default().is_empty();
    if has_address(new) && has_address(old) {
        if unset(&new.cluster_ip) {
            new.cluster_ip.clone_from(&old.cluster_ip);
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
        // A client that knows only the one field changes the other with it.
        if new.cluster_ip != old.cluster_ip && new.cluster_ips == old.cluster_ips {
            new.cluster_ips = new.cluster_ip.clone().map(|ip| vec![ip]);
        }
        new.ip_families = new.ip_families.take().or_else(|| old.ip_families.clone());
        new.ip_family_policy = new.ip_family_policy.take().or_else(|| old.ip_family_policy.clone());
    } else if has_address(old) {
        drop_same(&mut new.cluster_ip, &old.cluster_ip);
        drop_same(&mut new.cluster_ips, &old.cluster_ips);
        drop_same(&mut new.ip_families, &old.ip_families);
        drop_same(&mut new.ip_family_policy, &old.ip_family_policy);
    }
    settle_ports(new, old);
    if type_of(old) == LOAD_BALANCER && type_of(new) != LOAD_BALANCER {
        drop_same(&mut new.allocate_load_balancer_node_ports, &old.allocate_load_balancer_node_ports);
        drop_same(&mut new.load_balancer_class, &old.load_balancer_class);
    }
    if needs_health_check(old) {
        if !needs_health_check(new) {
            drop_same(&mut new.health_check_node_port, &old.health_check_node_port);
        } else if new.health_check_node_port.unwrap_or(0) == 0 {
            new.health_check_node_port = old.health_check_node_port;
        }
    }
    if is_external(old) && !is_external(new) {
        drop_same(&mut new.external_traffic_policy, &old.external_traffic_policy);
    }
}

/// What was not changed on purpose goes.
fn drop_same<T: PartialEq>(new: &mut Option<T>, old: &Option<T>) {
    if new == old {
        *new = None;
    }
}

fn settle_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let before = old.ports.as_deref().unwrap_or_default();
    let (had, has) = (has_node_ports(old), has_node_ports(new));
    for port in new.ports.iter_mut().flatten() {
        let twin = before.iter().find(|other| other.port == port.port && other.protocol == port.protocol);
        let given = twin.and_then(|twin| twin.node_port);
        if had && has && port.node_port.unwrap_or(0) == 0 {
            port.node_port = given;
        } else if had && !has && port.node_port == given {
            port.node_port = None;
        }
    }
}

pub fn errors(new: &ServiceSpec, old: &ServiceSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let text = "may not change once set";
    let first = |list: &Option<Vec<String>>| list.as_ref().and_then(|list| list.first().cloned());
    if has_address(new) && has_address(old) {
        let (before, after) = (first(&old.cluster_ips), first(&new.cluster_ips));
        if before.is_some() && before != after {
            errors.push(Invalid::invalid("spec.clusterIPs[0]", same::json(&new.cluster_ips), text));
        }
        let (before, after) = (first(&old.ip_families), first(&new.ip_families));
        if before.is_some() && before != after {
            errors.push(Invalid::invalid("spec.ipFamilies[0]", same::json(&new.ip_families), text));
        }
    }
    if type_of(new) == LOAD_BALANCER && type_of(old) == LOAD_BALANCER {
        let changed = new.load_balancer_class != old.load_balancer_class;
        let value = same::json(&new.load_balancer_class);
        errors.extend(changed.then(|| Invalid::invalid("spec.loadBalancerClass", value, text)));
    }
    let checked = needs_health_check(new) && needs_health_check(old);
    if checked && new.health_check_node_port != old.health_check_node_port {
        errors.push(Invalid::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    errors
}
