//! The sockets: one per node, each with every service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use bowline_proto::csi::v1::controller_server::ControllerServer;
use bowline_proto::csi::v1::group_controller_server::GroupControllerServer;
use bowline_proto::csi::v1::identity_server::IdentityServer;
use bowline_proto::csi::v1::node_server::NodeServer;
use bowline_proto::csi::v1::snapshot_metadata_server::SnapshotMetadataServer;
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::claim::claim;
use super::config::{LocalConfig, NamedNode};
use super::controller::ControllerService;
use super::devices;
use super::driver::Driver;
use super::group::GroupService;
use super::identity::IdentityService;
use super::metadata::MetadataService;
use super::node::NodeService;
use crate::metrics::{self, MetricsError};
use crate::serve::{RunError, accepted};

/// Serves the driver until `stop`, then lets running operations end.
pub async fn run(
    host: Host,
    config: LocalConfig,
    endpoint: &Path,
    stop: CancellationToken,
) -> Result<(), RunError> {
    // Given back when the last operation has ended.
    let _claimed = claim(&host, &config).await.map_err(RunError::Pool)?;
    let driver = Driver::open(host, config).await.map_err(RunError::Pool)?;
    let own = (endpoint.to_owned(), driver.config.node.clone());
    let others = driver.config.others.iter();
    let others = others.filter_map(|node| Some((node.endpoint.clone()?, node.clone())));
    let sockets: Vec<_> = std::iter::once(own).chain(others).collect();
    // Bound before the sockets: a port that is taken is a reason not to start.
    let metrics = metrics_endpoint(&driver).await?;
    let ended = stop.child_token();
    let metrics = async {
        if let Some(endpoint) = metrics {
            endpoint.serve(ended.clone()).await;
        }
    };
    let served = async {
        let nodes = sockets.into_iter();
        let nodes = nodes.map(|(endpoint, node)| serve_node(&driver, endpoint, node, stop.clone()));
        let served = try_join_all(nodes).await;
        ended.cancel();
        served
    };
    let (served, ()) = tokio::join!(served, metrics);
    driver.work.settle().await;
    devices::leave(&driver).await;
    served.map(drop)
}

async fn metrics_endpoint(driver: &Arc<Driver>) -> Result<Option<metrics::Endpoint>, MetricsError> {
    let Some(address) = &driver.config.metrics else { return Ok(None) };
    let operations = driver.work.operations.clone();
    metrics::Endpoint::bind(driver.host.clone(), address, driver.clone(), operations).await.map(Some)
}

async fn serve_node(
    driver: &Arc<Driver>,
    path: PathBuf,
    node: NamedNode,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let listener = driver.host.net.listen(&path).await;
    let listener = listener.map_err(|source| RunError::Listen { path: path.clone(), source })?;
    tracing::info!(endpoint = %path.display(), node = node.id, "serving");
    let metadata = MetadataService { driver: driver.clone(), stop: stop.clone() };
    let served = Server::builder()
        .layer(driver.work.calls())
        .add_service(IdentityServer::new(IdentityService(driver.clone())))
        .add_service(ControllerServer::new(ControllerService(driver.clone())))
        .add_service(GroupControllerServer::new(GroupService(driver.clone())))
        .add_service(SnapshotMetadataServer::new(metadata))
        .add_service(NodeServer::new(NodeService { driver: driver.clone(), node: Arc::new(node) }))
        .serve_with_incoming_shutdown(accepted(listener), stop.cancelled())
        .await;
    served?;
    if stop.is_cancelled() { Ok(()) } else { Err(RunError::Closed) }
}
