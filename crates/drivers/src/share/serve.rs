//! The socket with every service.

use std::path::Path;
use std::sync::Arc;

use bowline_host::Host;
use bowline_proto::csi::v1::controller_server::ControllerServer;
use bowline_proto::csi::v1::identity_server::IdentityServer;
use bowline_proto::csi::v1::node_server::NodeServer;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::config::{Further, ShareConfig};
use super::controller::ControllerService;
use super::driver::Driver;
use super::identity::IdentityService;
use super::node::NodeService;
use super::provision::finish_deletions;
use crate::pool_lock::{self, SHARE_LOCK};
use crate::serve::{RunError, accepted};

/// Serves the driver until `stop`, then lets running operations end.
pub async fn run(
    host: Host,
    config: ShareConfig,
    endpoint: &Path,
    stop: CancellationToken,
) -> Result<(), RunError> {
    // Given back when the last operation has ended.
    let locked = pool_lock::open(&host, &config.pool, SHARE_LOCK, config.installation.as_deref()).await;
    let _locked = locked.map_err(RunError::Pool)?;
    let driver = Driver::open(host, config).await.map_err(RunError::Pool)?;
    let listener = driver.host.net.listen(endpoint).await;
    let listener = listener.map_err(|source| RunError::Listen { path: endpoint.to_owned(), source })?;
    let further = further(&driver, &stop).await?;
    tracing::info!(endpoint = %endpoint.display(), node = driver.config.node_id, "serving");
    let node_id = driver.config.node_id.clone();
    let served = Server::builder()
        .layer(driver.work.calls())
        .add_service(IdentityServer::new(IdentityService(driver.clone())))
        .add_service(ControllerServer::new(ControllerService(driver.clone())))
        .add_service(NodeServer::new(NodeService(driver.clone(), node_id)))
        .serve_with_incoming_shutdown(accepted(listener), stop.cancelled());
    let (served, _) = tokio::join!(served, stop.run_until_cancelled(finish_deletions(driver.clone())));
    further.join_all().await;
    driver.work.settle().await;
    served?;
    if stop.is_cancelled() { Ok(()) } else { Err(RunError::Closed) }
}

/// Serves the other nodes of this machine until `stop`: same pool, other names. One that ends early concerns its node only.
async fn further(driver: &Arc<Driver>, stop: &CancellationToken) -> Result<JoinSet<()>, RunError> {
    let mut served = JoinSet::new();
    for Further { node_id, endpoint } in driver.config.further.clone() {
        let listener = driver.host.net.listen(&endpoint).await;
        let listener = listener.map_err(|source| RunError::Listen { path: endpoint.clone(), source })?;
        let (driver, stop) = (driver.clone(), stop.clone());
        served.spawn(async move {
            let ended = Server::builder()
                .layer(driver.work.calls())
                .add_service(IdentityServer::new(IdentityService(driver.clone())))
                .add_service(NodeServer::new(NodeService(driver.clone(), node_id.clone())))
                .serve_with_incoming_shutdown(accepted(listener), stop.cancelled());
            if let Err(error) = ended.await {
                tracing::error!(%error, node = node_id, "the driver no longer answers as this node");
            }
        });
    }
    Ok(served)
}
