//! Requests that a node answers: the logs of containers, and programs that are run inside them.
//!
//! Asked of the kubelet at the address in its node's status, in upstream's paths, so any kubelet may answer. A
//! session is handed through as it is: client and kubelet agree on its protocol, which for this project's kubelet
//! must be a WebSocket. Upstream's server turns the newest WebSocket protocol into SPDY on the way instead.

mod channel;
mod connect;
mod exec;
mod join;
mod location;
mod log;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;

use http::{HeaderMap, Method, Response};
use hyper::upgrade::OnUpgrade;

use crate::core::Core;
use crate::http::body::Body;
use crate::limits::Seat;
use crate::status::{Resource, Status};
use crate::verbs::Call;

pub use connect::{ADDRESS_TYPES, NodeProxy};
pub use tls::{KubeletClient, kubelet_client, kubelet_server};

const PODS: Resource<'static> = Resource { group: "", plural: "pods" };

/// What of a request the verbs do not need to know.
pub struct Connection<'a> {
    pub headers: &'a HeaderMap,
    /// The way to the bytes under the request, if its connection can give them away.
    pub upgrade: Option<OnUpgrade>,
    /// Counts the session until its end.
    pub seat: Option<Arc<Seat>>,
}

/// Whether a request is for a node to answer.
pub fn applies(call: &Call) -> bool {
    let named = call.namespace.is_some() && call.name.is_some();
    named && call.info().resource() == PODS && matches!(call.subresource.as_deref(), Some("log" | "exec"))
}

pub async fn run(
    core: &Core,
    method: &Method,
    call: &Call,
    connection: Connection<'_>,
) -> Result<Response<Body>, Status> {
    match (call.subresource.as_deref(), method) {
        (Some("log"), &Method::GET) => log::run(core, call).await,
        (Some("exec"), &Method::GET | &Method::POST) => exec::run(core, method, call, connection).await,
        _ => Err(Status::method_not_allowed()),
    }
}
