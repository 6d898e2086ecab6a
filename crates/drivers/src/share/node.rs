//! The Node service. Handlers parse, enter the volume, and leave the work to `target` and `stats`.

use std::sync::Arc;

use bowline_proto::csi::v1::node_server::Node;
use bowline_proto::csi::v1::node_service_capability::{Rpc, Type, rpc};
use bowline_proto::csi::v1::{self as csi, NodeServiceCapability};
use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::{parse, stats, target};
use crate::error::VolumeError;
use crate::fields::{self, Undo};

/// The driver, and the node that it answers as.
pub struct NodeService(pub Arc<Driver>, pub String);

type Answer<T> = Result<Response<T>, Status>;

/// Exactly what works.
const CAPABILITIES: [rpc::Type; 3] =
    [rpc::Type::GetVolumeStats, rpc::Type::VolumeMountGroup, rpc::Type::SingleNodeMultiWriter];

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_publish_volume(
        &self,
        r: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let want = parse::node_publish_volume(r.into_inner())?;
        let (driver, id) = (self.0.clone(), want.id.clone());
        let work = async move {
            target::publish(&driver, want).await?;
            Ok(csi::NodePublishVolumeResponse {})
        };
        self.0.exclusive(&id, work).await
    }

    async fn node_unpublish_volume(
        &self,
        r: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let request = r.into_inner();
        let want = Undo::parse(&request.volume_id, &request.target_path, target::TARGET_FIELD)?;
        let (driver, id) = (self.0.clone(), want.key());
        let work = async move {
            target::unpublish(&driver, want).await?;
            Ok(csi::NodeUnpublishVolumeResponse {})
        };
        self.0.teardown(&id, work).await
    }

    async fn node_get_volume_stats(
        &self,
        r: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        let request = r.into_inner();
        fields::required(&request.volume_id, "volume_id")?;
        let place = fields::place(&request.volume_path, "volume_path")?;
        let id = fields::existing(&request.volume_id)?;
        let path =
            place.ok_or_else(|| VolumeError::NotAt { id: id.clone(), path: request.volume_path.into() })?;
        Ok(Response::new(stats::stats(&self.0, &id, &path).await?))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        let capability =
            |c: rpc::Type| NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: c.into() })) };
        let capabilities = CAPABILITIES.into_iter().map(capability).collect();
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<csi::NodeGetInfoRequest>) -> Answer<csi::NodeGetInfoResponse> {
        let node_id = self.1.clone();
        Ok(Response::new(csi::NodeGetInfoResponse { node_id, ..Default::default() }))
    }

    async fn node_stage_volume(
        &self,
        _: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        Err(Status::unimplemented("nothing is staged"))
    }

    async fn node_unstage_volume(
        &self,
        _: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        Err(Status::unimplemented("nothing is staged"))
    }

    async fn node_expand_volume(
        &self,
        _: Request<csi::NodeExpandVolumeRequest>,
    ) -> Answer<csi::NodeExpandVolumeResponse> {
        Err(Status::unimplemented("a directory grows by itself"))
    }
}
