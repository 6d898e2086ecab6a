//! The Node service. Handlers parse, enter the volume, and leave the work to `stage` and `target`.

use std::sync::Arc;

use bowline_proto::csi::v1::node_server::Node;
use bowline_proto::csi::v1::node_service_capability::{Rpc, Type, rpc};
use bowline_proto::csi::v1::{self as csi, NodeServiceCapability};
use tonic::{Request, Response, Status};

use super::config::NamedNode;
use super::driver::Driver;
use super::node_expand::{self, NodeExpandVolume};
use super::{ephemeral, health, parse, stage, stats, target};
use crate::capacity::wire;

pub struct NodeService {
    pub driver: Arc<Driver>,
    pub node: Arc<NamedNode>,
}

type Answer<T> = Result<Response<T>, Status>;

/// Exactly what works.
const CAPABILITIES: [rpc::Type; 5] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::VolumeMountGroup,
];

impl NodeService {
    async fn publish_ephemeral(
        &self,
        request: &csi::NodePublishVolumeRequest,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let want = ephemeral::parse(request, &self.node)?;
        let (driver, id) = (self.driver.clone(), want.volume.id.clone());
        let node = self.node.clone();
        let work = async move {
            ephemeral::publish(&driver, &node, want).await?;
            Ok(csi::NodePublishVolumeResponse {})
        };
        self.driver.exclusive(&id, work).await
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        r: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        let want = parse::stage_volume(r.get_ref())?;
        let (driver, id) = (self.driver.clone(), want.id.clone());
        let node = self.node.clone();
        let work = async move {
            let volume = want.id.clone();
            let staged = stage::stage(&driver, &node, want).await;
            health::refresh(&driver, &volume).await;
            staged.map(|()| csi::NodeStageVolumeResponse {})
        };
        self.driver.exclusive(&id, work).await
    }

    async fn node_unstage_volume(
        &self,
        r: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        let want = parse::unstage_volume(r.get_ref())?;
        let (driver, id) = (self.driver.clone(), want.key());
        let node = self.node.clone();
        let work = async move {
            let volume = want.key();
            stage::unstage(&driver, &node, want).await?;
            health::refresh(&driver, &volume).await;
            Ok(csi::NodeUnstageVolumeResponse {})
        };
        self.driver.teardown(&id, work).await
    }

    async fn node_publish_volume(
        &self,
        r: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        if ephemeral::is_asked(r.get_ref()) {
            return self.publish_ephemeral(r.get_ref()).await;
        }
        let want = parse::node_publish_volume(r.get_ref())?;
        let (driver, id) = (self.driver.clone(), want.id.clone());
        let node = self.node.clone();
        let work = async move {
            target::publish(&driver, &node, want).await?;
            Ok(csi::NodePublishVolumeResponse {})
        };
        self.driver.exclusive(&id, work).await
    }

    async fn node_unpublish_volume(
        &self,
        r: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let want = parse::node_unpublish_volume(r.get_ref())?;
        let (driver, id) = (self.driver.clone(), want.key());
        let work = async move {
            target::unpublish(&driver, want).await?;
            Ok(csi::NodeUnpublishVolumeResponse {})
        };
        self.driver.teardown(&id, work).await
    }

    async fn node_get_volume_stats(
        &self,
        r: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        Ok(Response::new(stats::stats(&self.driver, &self.node, r.get_ref()).await?))
    }

    async fn node_get_volume_health(
        &self,
        r: Request<csi::NodeGetVolumeHealthRequest>,
    ) -> Answer<csi::NodeGetVolumeHealthResponse> {
        self.driver.config.dialect.check_1_13()?;
        Ok(Response::new(health::of_node(&self.driver, r.get_ref()).await?))
    }

    async fn node_get_storage_health(
        &self,
        _: Request<csi::NodeGetStorageHealthRequest>,
    ) -> Answer<csi::NodeGetStorageHealthResponse> {
        self.driver.config.dialect.check_1_13()?;
        Ok(Response::new(health::of_storage(&self.driver).await))
    }

    async fn node_expand_volume(
        &self,
        r: Request<csi::NodeExpandVolumeRequest>,
    ) -> Answer<csi::NodeExpandVolumeResponse> {
        let want = NodeExpandVolume::parse(r.get_ref())?;
        let (driver, id) = (self.driver.clone(), want.place.id.clone());
        let node = self.node.clone();
        let work = async move {
            let size = node_expand::expand(&driver, &node, want).await?;
            Ok(csi::NodeExpandVolumeResponse { capacity_bytes: wire(size) })
        };
        self.driver.exclusive(&id, work).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        let capability =
            |c: rpc::Type| NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: c.into() })) };
        let all = CAPABILITIES.iter().chain(self.driver.config.dialect.node());
        let capabilities = all.copied().map(capability).collect();
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<csi::NodeGetInfoRequest>) -> Answer<csi::NodeGetInfoResponse> {
        Ok(Response::new(csi::NodeGetInfoResponse {
            node_id: self.node.id.clone(),
            max_volumes_per_node: self.driver.config.max_volumes.into(),
            accessible_topology: Some(csi::Topology { segments: self.node.topology.clone() }),
        }))
    }
}
