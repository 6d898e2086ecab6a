//! Names, addresses and ports of a pod.

use std::collections::BTreeSet;

use bowline_api::name;
use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::spec::Owner;
use crate::field::Invalid;
use crate::kinds::check::{self, addresses, names};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// Numbers of ports.
const PORTS: std::ops::RangeInclusive<i32> = 1..=65535;
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const HOSTNAME_MAX: usize = 64;

pub fn ports(at: &str, ports: &[ContainerPort]) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let range = check::range_text(1, 65535);
    for (index, port) in ports.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            let wrong = names::port(&format!("{at}.name"), name);
            let taken = ports[..index].iter().any(|earlier| earlier.name.as_deref() == Some(name));
            if wrong.is_empty() && taken {
                errors.push(Invalid::duplicate(format!("{at}.name"), name));
            }
            errors.extend(wrong);
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

/// No two of the containers take the same port of the host. `at` is the list they stand in.
pub fn port_conflicts(at: &str, containers: &[Container]) -> Vec<Invalid> {
    let (mut taken, mut errors) = (BTreeSet::new(), Vec::new());
    for (position, one) in containers.iter().enumerate() {
        for (index, port) in one.ports.iter().flatten().enumerate() {
            let number = port.host_port.unwrap_or(0);
            let (protocol, ip) = (port.protocol.as_deref(), port.host_ip.as_deref());
            let key = format!("{}/{}/{number}", protocol.unwrap_or_default(), ip.unwrap_or_default());
            if number != 0 && !taken.insert(key.clone()) {
                errors.push(Invalid::duplicate(format!("{at}[{position}].ports[{index}].hostPort"), key));
            }
        }
    }
    errors
}

/// On the host's network a port has one number. In a template it may still be left open.
pub fn host_ports(at: &str, owner: Owner<'_>, spec: &PodSpec) -> Vec<Invalid> {
    if spec.host_network != Some(true) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for (position, one) in spec.containers.iter().enumerate() {
        for (index, port) in one.ports.iter().flatten().enumerate() {
            let on_host = port.host_port.unwrap_or(0);
            let open = on_host == 0 && owner == Owner::Template;
            if !open && on_host != port.container_port {
                let at = format!("{at}.containers[{position}].ports[{index}].hostPort");
                let text = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Invalid::invalid(at, on_host, text));
            }
        }
    }
    errors
}

pub fn dns(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let config = spec.dns_config.as_ref();
    let servers = config.and_then(|config| config.nameservers.as_deref()).unwrap_or_default();
    if spec.dns_policy.as_deref() == Some("None") && servers.is_empty() {
        return vec![match config {
            None => Invalid::required(at, "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(_) => Invalid::required(
                format!("{at}.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ),
        }];
    }
    let mut errors = Vec::new();
    if servers.len() > NAMESERVERS_MAX {
        let text = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(Invalid::invalid(format!("{at}.nameservers"), servers.to_vec(), text));
    }
    for (index, server) in servers.iter().enumerate() {
        errors.extend(addresses::ip(&format!("{at}.nameservers[{index}]"), server));
    }
    errors
        .extend(search_errors(at, config.and_then(|config| config.searches.as_deref()).unwrap_or_default()));
    let options = config.and_then(|config| config.options.as_deref()).unwrap_or_default();
    for (index, option) in options.iter().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            errors.push(Invalid::required(format!("{at}.options[{index}]"), "must not be empty"));
        }
    }
    errors
}

fn search_errors(at: &str, searches: &[String]) -> Vec<Invalid> {
    let at = format!("{at}.searches");
    let mut errors = Vec::new();
    if searches.len() > SEARCHES_MAX {
        let text = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(Invalid::invalid(at.as_str(), searches.to_vec(), text));
    }
    if searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        let text = format!(
            "must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list"
        );
        errors.push(Invalid::invalid(at.as_str(), searches.to_vec(), text));
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        let name = search.strip_suffix('.').unwrap_or(search);
        let texts = name::underscored_subdomain_errors(name).into_iter();
        errors.extend(texts.map(|text| Invalid::invalid(format!("{at}[{index}]"), name, text)));
    }
    errors
}

pub fn hostname_override(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let Some(name) = spec.hostname_override.as_deref() else { return Vec::new() };
    let clashes = [
        ("setHostnameAsFQDN", spec.set_hostname_as_fqdn == Some(true)),
        ("hostNetwork", spec.host_network == Some(true)),
    ];
    let clashes = clashes.into_iter().filter(|(_, on)| *on);
    let mut errors: Vec<Invalid> = clashes
        .map(|(field, _)| Invalid::forbidden(at, format!("may not be specified when {field} is true")))
        .collect();
    if name.len() > HOSTNAME_MAX {
        errors.push(check::too_long(at, HOSTNAME_MAX));
    }
    errors.extend(names::subdomain(at, name));
    errors
}

pub fn host_aliases(at: &str, spec: &PodSpec) -> Vec<Invalid> {
    let mut errors = Vec::new();
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        errors.extend(addresses::ip(&format!("{at}[{index}].ip"), &alias.ip));
        for (position, name) in alias.hostnames.iter().flatten().enumerate() {
            errors.extend(names::subdomain(&format!("{at}[{index}].hostnames[{position}]"), name));
        }
    }
    errors
}
