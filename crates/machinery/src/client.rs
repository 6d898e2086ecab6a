//! One client type: a kubeconfig, or the API server in this process.

use std::fmt::Debug;
use std::path::Path;

use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::Service;

pub use kube::Client;

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

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("read kubeconfig `{path}`")]
    Read { path: String, source: kube::config::KubeconfigError },
    #[error("find an API server: neither --kubeconfig nor a service account is there")]
    Infer(#[source] kube::config::InferConfigError),
    #[error("connect to the API server")]
    Connect(#[source] kube::Error),
}

/// A client of the API server in this process: no socket, no TLS.
pub fn in_process<S, B>(service: S) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    Client::new(service, "default")
}

/// A client from a kubeconfig file, or from the surroundings (environment, service account) when none is given.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let config = match kubeconfig {
        Some(path) => {
            let read = |source| ClientError::Read { path: path.display().to_string(), source };
            let file = Kubeconfig::read_from(path).map_err(read)?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(read)?
        }
        None => kube::Config::infer().await.map_err(ClientError::Infer)?,
    };
    Client::try_from(config).map_err(ClientError::Connect)
}
