//! Which container a request means, and where its node answers. Pure, but for the looks into the store.

use bowline_api::ObjectKey;
use http::StatusCode;
use serde_json::Value;

use super::{NodeProxy, PODS};
use crate::core::Core;
use crate::metadata;
use crate::status::Status;
use crate::verbs::Call;

/// Where kubelets answer unless their node says otherwise.
const DEFAULT_PORT: u16 = 10250;

/// A kubelet's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    /// As it is dialled, and as it stands in a URL.
    pub fn place(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

pub fn pod(core: &Core, call: &Call) -> Result<Value, Status> {
    let found = core.store.get(&call.info().table, &call.key());
    found.map(|found| found.value()).ok_or_else(|| Status::not_found(PODS, call.name()))
}

/// The container that is asked for, or the only one.
pub fn container(pod: &Value, wanted: &str) -> Result<String, Status> {
    let name = metadata::name(pod);
    let all = ["initContainers", "containers", "ephemeralContainers"];
    let all = all.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let names: Vec<&str> = all.filter_map(|container| container["name"].as_str()).collect();
    if !wanted.is_empty() {
        let known = names.contains(&wanted);
        let why = || Status::bad_request(format!("container {wanted} is not valid for pod {name}"));
        return known.then(|| wanted.to_owned()).ok_or_else(why);
    }
    match pod["spec"]["containers"].as_array().map(Vec::as_slice) {
        Some([only]) => Ok(only["name"].as_str().unwrap_or_default().to_owned()),
        None | Some([]) => {
            Err(Status::bad_request(format!("a container name must be specified for pod {name}")))
        }
        Some(_) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" ")
        ))),
    }
}

/// Where the kubelet of a pod's node answers; `None` if the pod has no node yet.
pub fn endpoint(core: &Core, proxy: &NodeProxy, pod: &Value) -> Result<Option<Endpoint>, Status> {
    let node = match pod["spec"]["nodeName"].as_str() {
        None | Some("") => return Ok(None),
        Some(node) => node,
    };
    // Upstream names the node after the wrong kind.
    let missing = || Status::not_found(PODS, node);
    let node = core.store.get("nodes", &ObjectKey::cluster(node)).ok_or_else(missing)?.value();
    address(&node, &proxy.address_types).map(Some)
}

pub fn address(node: &Value, preferred: &[String]) -> Result<Endpoint, Status> {
    let addresses = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |wanted: &String| addresses.iter().find(|address| address["type"] == **wanted);
    let text = |address: &Value, field: &str| address[field].as_str().unwrap_or_default().to_owned();
    let Some(found) = preferred.iter().find_map(of) else {
        let shown: Vec<String> = addresses
            .iter()
            .map(|address| format!("{{{} {}}}", text(address, "type"), text(address, "address")))
            .collect();
        let message = format!("no preferred addresses found; known addresses: [{}]", shown.join(" "));
        return Err(Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
    };
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    Ok(Endpoint { host: text(found, "address"), port: port.unwrap_or(DEFAULT_PORT) })
}

pub fn unavailable() -> Status {
    let mut status = Status::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "ServiceUnavailable",
        "this API server has no way to kubelets: logs and exec are not available",
    );
    status.details.kind = PODS.plural.into();
    status
}
