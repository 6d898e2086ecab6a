//! One client type: a kubeconfig, a pod's service account, or the API server in this process.
//!
//! Every client has the same line in front of it (`line`): a deadline for each call, and `Retry-After` honoured. A client
//! over the network has connections that watches share and that keep-alives guard (`transport`).

pub mod account;
mod certificate;
pub mod line;
pub(crate) mod read;
pub mod shared;
pub mod source;
pub mod subject;
mod token;
mod transport;

use std::fmt::Debug;
use std::sync::Arc;

use bowline_host::Disk;
use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::Service;

pub use account::{Accounts, NAMESPACE as ACCOUNTS_NAMESPACE};
pub use kube::Client;
pub use line::Line;
pub use source::{Environment, Source};
pub use subject::{Clients, Subject};

/// A built-in Kubernetes type that roles read and write.
pub trait Object:
    kube::Resource<DynamicType = ()>
    + k8s_openapi::Metadata<Ty = ObjectMeta>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<T> Object for T where
    T: kube::Resource<DynamicType = ()>
        + k8s_openapi::Metadata<Ty = ObjectMeta>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// Why there is no client, in one line each: what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("read kubeconfig `{path}`: {why}; pass the path of a kubeconfig with --kubeconfig")]
    Read { path: String, why: String },
    #[error("use kubeconfig `{path}`: {why}")]
    Unusable { path: String, why: String },
    #[error(
        "use kubeconfig `{path}`: its user has no client certificate, token, password or exec plugin; add one to `users`"
    )]
    NoCredentials { path: String },
    #[error(
        "find the API server: {why}; pass --kubeconfig, or run in a pod with a service account (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the mounted token)"
    )]
    NotInPod { why: String },
    #[error("prepare connections to the API server `{server}`: {why}")]
    Prepare { server: String, why: String },
    #[error(
        "reach the API server: {why}; check that it runs and that the address in the kubeconfig is right"
    )]
    Unreachable { why: String },
    #[error(
        "log in to the API server: it refuses our credentials ({why}); renew the certificate or token of the kubeconfig or service account"
    )]
    Unauthorized { why: String },
}

/// A client of the API server in this process: no socket, no TLS, but the same line in front of it.
pub fn in_process<S, B>(service: S) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    in_process_with(service, Line::default())
}

/// The same with a line of the caller's own, such as one with the simulation's randomness or another deadline.
pub fn in_process_with<S, B>(service: S, line: Line) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    Client::new(line.before(service), "default")
}

/// For programs without an API server: every call fails.
pub fn nowhere() -> Client {
    in_process(tower::service_fn(|_: Request<Body>| {
        std::future::ready(Err::<Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::NotConnected)))
    }))
}

/// A client for what `source` says. Sends nothing yet; `check` does.
pub async fn connect(source: &Source, line: Line, disk: Arc<dyn Disk>) -> Result<Client, ClientError> {
    let config = source.load().await?;
    transport::client(config, line, disk).await
}

/// One question that any user may ask, to find early that the server is unreachable or refuses the credentials.
pub async fn check(client: &Client) -> Result<(), ClientError> {
    match client.apiserver_version().await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 401 => {
            Err(ClientError::Unauthorized { why: status.message.clone() })
        }
        // A user who may not read the version has reached the server and is known to it.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(ClientError::Unreachable { why: one_line(&error) }),
    }
}

/// An error with all its causes in one line; hyper says only "client error (Connect)" by itself.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Many errors repeat their source in their own text.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests;
