//! The Controller service. Handlers parse, enter the volume, and leave the work to `provision`.

use std::sync::Arc;

use bowline_proto::csi::v1::controller_server::Controller;
use bowline_proto::csi::v1::controller_service_capability::{Rpc, Type, rpc};
use bowline_proto::csi::v1::{self as csi, ControllerServiceCapability};
use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::{list, parse, provision, validate};
use crate::fields;

pub struct ControllerService(pub Arc<Driver>);

type Answer<T> = Result<Response<T>, Status>;

/// Exactly what works.
const CAPABILITIES: [rpc::Type; 6] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::GetVolume,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
];

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(&self, r: Request<csi::CreateVolumeRequest>) -> Answer<csi::CreateVolumeResponse> {
        let want = parse::create_volume(r.into_inner())?;
        let (driver, id) = (self.0.clone(), want.id.clone());
        let work = async move {
            let id = want.id.clone();
            let record = provision::create(&driver, want).await?;
            Ok(csi::CreateVolumeResponse { volume: Some(list::volume(&id, &record)) })
        };
        self.0.exclusive(&id, work).await
    }

    async fn delete_volume(&self, r: Request<csi::DeleteVolumeRequest>) -> Answer<csi::DeleteVolumeResponse> {
        let Some(id) = fields::volume_id(&r.get_ref().volume_id)? else {
            return Ok(Response::new(csi::DeleteVolumeResponse {}));
        };
        let (driver, volume) = (self.0.clone(), id.clone());
        let work = async move {
            provision::delete(&driver, &volume).await?;
            Ok(csi::DeleteVolumeResponse {})
        };
        self.0.exclusive(&id, work).await
    }

    async fn controller_expand_volume(
        &self,
        r: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let (id, range) = parse::expand_volume(r.get_ref())?;
        let (driver, volume) = (self.0.clone(), id.clone());
        let work = async move {
            let capacity = provision::expand(&driver, &volume, range).await?;
            Ok(csi::ControllerExpandVolumeResponse {
                capacity_bytes: i64::try_from(capacity).unwrap_or(i64::MAX),
                node_expansion_required: false,
            })
        };
        self.0.exclusive(&id, work).await
    }

    async fn validate_volume_capabilities(
        &self,
        r: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        Ok(Response::new(validate::validate(&self.0, r.into_inner())?))
    }

    async fn list_volumes(&self, r: Request<csi::ListVolumesRequest>) -> Answer<csi::ListVolumesResponse> {
        Ok(Response::new(list::page(&self.0, r.get_ref())?))
    }

    async fn controller_get_volume(
        &self,
        r: Request<csi::ControllerGetVolumeRequest>,
    ) -> Answer<csi::ControllerGetVolumeResponse> {
        Ok(Response::new(list::one(&self.0, r.get_ref())?))
    }

    async fn get_capacity(&self, r: Request<csi::GetCapacityRequest>) -> Answer<csi::GetCapacityResponse> {
        Ok(Response::new(validate::capacity(&self.0, r.into_inner()).await?))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        let capability =
            |c: rpc::Type| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: c.into() })) };
        let capabilities = CAPABILITIES.into_iter().map(capability).collect();
        Ok(Response::new(csi::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn controller_publish_volume(
        &self,
        _: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Answer<csi::ControllerPublishVolumeResponse> {
        Err(Status::unimplemented("nothing is attached"))
    }

    async fn controller_unpublish_volume(
        &self,
        _: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Answer<csi::ControllerUnpublishVolumeResponse> {
        Err(Status::unimplemented("nothing is attached"))
    }

    async fn create_snapshot(
        &self,
        _: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        Err(Status::unimplemented("snapshots"))
    }

    async fn delete_snapshot(
        &self,
        _: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        Err(Status::unimplemented("snapshots"))
    }

    async fn list_snapshots(
        &self,
        _: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        Err(Status::unimplemented("snapshots"))
    }

    async fn get_snapshot(&self, _: Request<csi::GetSnapshotRequest>) -> Answer<csi::GetSnapshotResponse> {
        Err(Status::unimplemented("snapshots"))
    }

    async fn controller_modify_volume(
        &self,
        _: Request<csi::ControllerModifyVolumeRequest>,
    ) -> Answer<csi::ControllerModifyVolumeResponse> {
        Err(Status::unimplemented("modification"))
    }
}
