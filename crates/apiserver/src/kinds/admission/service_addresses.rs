//! Hands out addresses of services and ports of nodes. What is taken is what stored services say.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::field::Invalid;
use crate::kinds::service::{EXTERNAL_NAME, HEADLESS, LOAD_BALANCER, NODE_PORT, address_errors};
use crate::metadata;
use crate::status::Status;

/// 10.96.0.0/16 without its first address, which names the network, the second, which is for the API server, and
/// the last, which is for broadcasts.
const NETWORK: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const HOSTS: std::ops::Range<u32> = 2..0xffff;
const PORTS: std::ops::RangeInclusive<u32> = 30_000..=32_767;

/// Two positions that only move forward: requests at the same time get different ones, so that they cannot be
/// given the same address between looking and storing. Other servers of the same store move forward from elsewhere,
/// which makes it unlikely that two of them are at the same place at the same time.
#[derive(Default)]
pub struct ServiceAddresses {
    /// Follows from the first request, which no two servers have in common.
    start: OnceLock<u32>,
    host: AtomicU32,
    port: AtomicU32,
}

impl ServiceAddresses {
    fn next(&self, position: &AtomicU32, count: u32) -> u32 {
        let start = self.start.get().copied().unwrap_or_default() % count;
        (start + position.fetch_add(1, Ordering::Relaxed) % count) % count
    }

    fn free_address(&self, taken: &BTreeSet<String>) -> Option<String> {
        let count = HOSTS.end - HOSTS.start;
        let address = || {
            let host = HOSTS.start + self.next(&self.host, count);
            Ipv4Addr::from(NETWORK + host).to_string()
        };
        (0..count).map(|_| address()).find(|address| !taken.contains(address))
    }

    fn free_port(&self, taken: &BTreeSet<u64>) -> Option<u64> {
        let count = PORTS.end() - PORTS.start() + 1;
        let port = || u64::from(PORTS.start() + self.next(&self.port, count));
        (0..count).map(|_| port()).find(|port| !taken.contains(port))
    }

    fn address(&self, spec: &mut Value, taken: &Taken) -> Result<(), Status> {
        let (headless, selects) = (spec["clusterIP"] == HEADLESS, !spec["selector"].is_null());
        if spec["ipFamilyPolicy"].is_null() {
            // Nobody knows the families behind a service whose endpoints somebody else writes.
            let both = headless && !selects;
            spec["ipFamilyPolicy"] = if both { "RequireDualStack" } else { "SingleStack" }.into();
            if spec["ipFamilies"].is_null() {
                spec["ipFamilies"] = if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
            }
        }
        if spec["ipFamilies"].is_null() {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() && spec["clusterIPs"].is_null() {
            let address = self
                .free_address(&taken.addresses)
                .ok_or_else(|| Status::internal("no address is left for the service"))?;
            spec["clusterIPs"] = json!([address]);
            spec["clusterIP"] = address.into();
        }
        Ok(())
    }

    fn ports(&self, spec: &mut Value, taken: &mut Taken) -> Result<(), Status> {
        let full = || Status::internal("no port of the nodes is left for the service");
        let balanced = spec["type"] == LOAD_BALANCER;
        let wanted = !balanced || spec["allocateLoadBalancerNodePorts"] != false;
        let checked = balanced && spec["externalTrafficPolicy"] == "Local";
        if checked && spec["healthCheckNodePort"].as_u64().unwrap_or(0) == 0 {
            let port = self.free_port(&taken.ports).ok_or_else(full)?;
            taken.ports.insert(port);
            spec["healthCheckNodePort"] = port.into();
        }
        for port in spec["ports"].as_array_mut().into_iter().flatten().filter(|_| wanted) {
            if port["nodePort"].as_u64().unwrap_or(0) == 0 {
                let free = self.free_port(&taken.ports).ok_or_else(full)?;
                taken.ports.insert(free);
                port["nodePort"] = free.into();
            }
        }
        Ok(())
    }
}

fn start(request: &AdmissionRequest<'_>) -> u32 {
    let mut hasher = DefaultHasher::new();
    (request.namespace, request.name, request.now.as_nanosecond()).hash(&mut hasher);
    // Half of the bits are as good as all.
    (hasher.finish() >> 32) as u32
}

/// What other services have.
#[derive(Default)]
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

impl Taken {
    fn by_others(request: &AdmissionRequest<'_>, lister: &dyn Lister) -> Self {
        let mut taken = Self::default();
        for service in lister.list("", "services") {
            let own = metadata::name(&service) == request.name
                && metadata::text(&service, "namespace") == request.namespace;
            if own {
                continue;
            }
            let spec = &service["spec"];
            let texts = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
            taken.addresses.extend(texts.map(str::to_owned));
            let ports =
                spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_u64());
            taken.ports.extend(ports.chain(spec["healthCheckNodePort"].as_u64()));
        }
        taken
    }
}

impl Admission for ServiceAddresses {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if !request.is("", "services") || object["spec"]["type"] == EXTERNAL_NAME {
            return Ok(());
        }
        // Upstream hands out addresses before it looks at the rest, so nothing else is said of a service whose own are wrong.
        let errors = if request.old.is_none() { address_errors(&object["spec"]) } else { Vec::new() };
        if !errors.is_empty() {
            return Err(Status::invalid("", "Service", request.name, &errors));
        }
        self.start.get_or_init(|| start(request));
        let mut taken = Taken::by_others(request, lister);
        let before = request.old.map(|old| &old["spec"]);
        let spec = &mut object["spec"];
        // An update that leaves out what was handed out keeps it.
        if before.is_none_or(|before| before["type"] == EXTERNAL_NAME) {
            self.address(spec, &taken)?;
        }
        let has = |spec: &Value| spec["type"] == NODE_PORT || spec["type"] == LOAD_BALANCER;
        if has(spec) && before.is_none_or(|before| !has(before) || before["ports"] != spec["ports"]) {
            if let Some(before) = before {
                keep_ports(spec, before);
            }
            self.ports(spec, &mut taken)?;
        }
        Ok(())
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if !request.is("", "services") || request.operation == Operation::Delete {
            return Ok(());
        }
        let before = request.old.map_or(&Value::Null, |old| &old["spec"]);
        let spec = &object["spec"];
        if spec["clusterIPs"] == before["clusterIPs"] && spec["ports"] == before["ports"] {
            return Ok(());
        }
        let errors = conflicts(spec, before, &Taken::by_others(request, lister));
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "Service", request.name, &errors)) }
    }
}

/// The port of a node that leads to a port stays when only other ports change.
fn keep_ports(spec: &mut Value, before: &Value) {
    let old = before["ports"].as_array().cloned().unwrap_or_default();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let twin =
            old.iter().find(|other| other["port"] == port["port"] && other["protocol"] == port["protocol"]);
        let given = twin.and_then(|twin| twin["nodePort"].as_u64());
        if let Some(given) = given.filter(|_| port["nodePort"].as_u64().unwrap_or(0) == 0) {
            port["nodePort"] = given.into();
        }
    }
}

fn conflicts(spec: &Value, before: &Value, taken: &Taken) -> Vec<Invalid> {
    let mut errors = Vec::new();
    let headless = spec["clusterIP"] == HEADLESS && spec["selector"].is_null();
    if spec["ipFamilyPolicy"] == "RequireDualStack" && !headless {
        let why = "this cluster is not configured for dual-stack services";
        return vec![Invalid::invalid("spec.ipFamilyPolicy", "RequireDualStack", why)];
    }
    let ip = spec["clusterIP"].as_str().unwrap_or_default();
    if !matches!(ip, "" | HEADLESS) && spec["clusterIP"] != before["clusterIP"] {
        let inside = ip.parse::<Ipv4Addr>().is_ok_and(|ip| u32::from(ip) & 0xffff_0000 == NETWORK);
        let why = match inside {
            false => Some("the provided network does not match the current range"),
            true => taken.addresses.contains(ip).then_some("provided IP is already allocated"),
        };
        let text = |why| format!("failed to allocate IP {ip}: {why}");
        errors.extend(
            why.map(|why| Invalid::invalid("spec.clusterIPs", spec["clusterIPs"].clone(), text(why))),
        );
    }
    let had = |port: u64| before["ports"].as_array().into_iter().flatten().any(|old| old["nodePort"] == port);
    for (index, port) in spec["ports"].as_array().into_iter().flatten().enumerate() {
        let Some(port) = port["nodePort"].as_u64().filter(|port| *port != 0 && !had(*port)) else { continue };
        let inside = u32::try_from(port).is_ok_and(|port| PORTS.contains(&port));
        let why = match inside {
            false => Some("provided port is not in the valid range. The range of valid ports is 30000-32767"),
            true => taken.ports.contains(&port).then_some("provided port is already allocated"),
        };
        errors.extend(why.map(|why| Invalid::invalid(format!("spec.ports[{index}].nodePort"), port, why)));
    }
    errors
}
