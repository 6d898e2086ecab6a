//! The Controller service. Handlers parse, enter the volume, and leave the work to `provision` and `attach`.

use std::sync::Arc;

use bowline_proto::csi::v1::controller_server::Controller;
use bowline_proto::csi::v1::controller_service_capability::{Rpc, Type, rpc};
use bowline_proto::csi::v1::{self as csi, ControllerServiceCapability};
use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::expand::{self, ExpandVolume};
use super::modify::{self, ModifyVolume};
use super::{attach, health, list, parse, provision, snapshot, validate};
use crate::capacity::wire;

pub struct ControllerService(pub Arc<Driver>);

type Answer<T> = Result<Response<T>, Status>;

/// Exactly what works.
const CAPABILITIES: [rpc::Type; 14] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::PublishUnpublishVolume,
    rpc::Type::ListVolumes,
    rpc::Type::ListVolumesPublishedNodes,
    rpc::Type::GetCapacity,
    rpc::Type::GetVolume,
    rpc::Type::PublishReadonly,
    rpc::Type::ExpandVolume,
    rpc::Type::ModifyVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::GetSnapshot,
    rpc::Type::CloneVolume,
];

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(&self, r: Request<csi::CreateVolumeRequest>) -> Answer<csi::CreateVolumeResponse> {
        let want = parse::create_volume(r.into_inner())?;
        let (driver, (alone, shared)) = (self.0.clone(), want.keys());
        let work = async move {
            let id = want.id.clone();
            let record = provision::create(&driver, want).await?;
            Ok(csi::CreateVolumeResponse { volume: Some(list::volume(&id, &record)) })
        };
        self.0.work.sharing(alone, shared, work).await
    }

    async fn delete_volume(&self, r: Request<csi::DeleteVolumeRequest>) -> Answer<csi::DeleteVolumeResponse> {
        let Some(id) = parse::volume_id(&r.get_ref().volume_id)? else {
            return Ok(Response::new(csi::DeleteVolumeResponse {}));
        };
        let (driver, volume) = (self.0.clone(), id.clone());
        let work = async move {
            provision::delete(&driver, volume.clone()).await?;
            driver.health.forget(&volume);
            Ok(csi::DeleteVolumeResponse {})
        };
        self.0.exclusive(&id, work).await
    }

    async fn controller_publish_volume(
        &self,
        r: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Answer<csi::ControllerPublishVolumeResponse> {
        let want = parse::publish_volume(r.get_ref())?;
        let (driver, id) = (self.0.clone(), want.id.clone());
        let work = async move {
            let publish_context = attach::publish(&driver, want).await?;
            Ok(csi::ControllerPublishVolumeResponse { publish_context })
        };
        self.0.exclusive(&id, work).await
    }

    async fn controller_unpublish_volume(
        &self,
        r: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Answer<csi::ControllerUnpublishVolumeResponse> {
        let request = r.into_inner();
        let Some(id) = parse::volume_id(&request.volume_id)? else {
            return Ok(Response::new(csi::ControllerUnpublishVolumeResponse {}));
        };
        let (driver, volume) = (self.0.clone(), id.clone());
        let work = async move {
            attach::unpublish(&driver, &volume, &request.node_id).await?;
            Ok(csi::ControllerUnpublishVolumeResponse {})
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
        Ok(Response::new(list::one(&self.0, r.get_ref()).await?))
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
        let all = CAPABILITIES.iter().chain(self.0.config.dialect.controller());
        let capabilities = all.copied().map(capability).collect();
        Ok(Response::new(csi::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn controller_list_volume_health(
        &self,
        r: Request<csi::ControllerListVolumeHealthRequest>,
    ) -> Answer<csi::ControllerListVolumeHealthResponse> {
        self.0.config.dialect.check_1_13()?;
        Ok(Response::new(health::list(&self.0, r.get_ref())?))
    }

    async fn controller_get_volume_health(
        &self,
        r: Request<csi::ControllerGetVolumeHealthRequest>,
    ) -> Answer<csi::ControllerGetVolumeHealthResponse> {
        self.0.config.dialect.check_1_13()?;
        Ok(Response::new(health::of_volume(&self.0, r.get_ref()).await?))
    }

    async fn create_snapshot(
        &self,
        r: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        let want = parse::snapshot::create_snapshot(r.into_inner())?;
        let (driver, keys) = (self.0.clone(), vec![want.id.key(), want.volume.key()]);
        let work = async move {
            let id = want.id.clone();
            let record = snapshot::create(&driver, want).await?;
            Ok(csi::CreateSnapshotResponse {
                snapshot: Some(snapshot::list::snapshot(&driver, &id, &record)),
            })
        };
        self.0.work.exclusive(keys, work).await
    }

    async fn delete_snapshot(
        &self,
        r: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        let Some(id) = parse::snapshot::snapshot_id(&r.get_ref().snapshot_id, "snapshot_id")? else {
            return Ok(Response::new(csi::DeleteSnapshotResponse {}));
        };
        let (driver, keys) = (self.0.clone(), vec![id.key()]);
        let work = async move {
            snapshot::delete(&driver, &id).await?;
            Ok(csi::DeleteSnapshotResponse {})
        };
        self.0.work.exclusive(keys, work).await
    }

    async fn list_snapshots(
        &self,
        r: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        Ok(Response::new(snapshot::list::page(&self.0, r.get_ref())?))
    }

    async fn get_snapshot(&self, r: Request<csi::GetSnapshotRequest>) -> Answer<csi::GetSnapshotResponse> {
        Ok(Response::new(snapshot::list::one(&self.0, r.get_ref())?))
    }

    async fn controller_expand_volume(
        &self,
        r: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let want = ExpandVolume::parse(r.get_ref())?;
        let (driver, id) = (self.0.clone(), want.id.clone());
        let work = async move {
            let (size, node_expansion_required) = expand::expand(&driver, want).await?;
            Ok(csi::ControllerExpandVolumeResponse { capacity_bytes: wire(size), node_expansion_required })
        };
        self.0.exclusive(&id, work).await
    }

    async fn controller_modify_volume(
        &self,
        r: Request<csi::ControllerModifyVolumeRequest>,
    ) -> Answer<csi::ControllerModifyVolumeResponse> {
        let want = ModifyVolume::parse(r.get_ref())?;
        let (driver, id) = (self.0.clone(), want.id.clone());
        let work = async move {
            modify::modify(&driver, want).await?;
            Ok(csi::ControllerModifyVolumeResponse {})
        };
        self.0.exclusive(&id, work).await
    }
}
