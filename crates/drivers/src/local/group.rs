//! The GroupController service. Handlers parse, enter everything that is touched, and leave the work to `cut`.

use std::sync::Arc;

use bowline_proto::csi::v1::group_controller_server::GroupController;
use bowline_proto::csi::v1::group_controller_service_capability::{Rpc, Type, rpc};
use bowline_proto::csi::v1::{self as csi, GroupControllerServiceCapability};
use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::parse::snapshot as parse;
use super::plan::snapshot as plan;
use super::record::Phase;
use super::snapshot::list;
use crate::id::Group;

pub mod cut;

pub struct GroupService(pub Arc<Driver>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GroupController for GroupService {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<csi::GroupControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::GroupControllerGetCapabilitiesResponse> {
        let all_three = Rpc { r#type: rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into() };
        let capabilities = vec![GroupControllerServiceCapability { r#type: Some(Type::Rpc(all_three)) }];
        Ok(Response::new(csi::GroupControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_volume_group_snapshot(
        &self,
        r: Request<csi::CreateVolumeGroupSnapshotRequest>,
    ) -> Answer<csi::CreateVolumeGroupSnapshotResponse> {
        let want = parse::create_group(r.into_inner())?;
        let (driver, keys) = (self.0.clone(), want.keys());
        let work = async move {
            let id = want.id.clone();
            let record = cut::create(&driver, want).await?;
            let group_snapshot = Some(list::group(&driver, &id, &record));
            Ok(csi::CreateVolumeGroupSnapshotResponse { group_snapshot })
        };
        self.0.work.exclusive(keys, work).await
    }

    async fn delete_volume_group_snapshot(
        &self,
        r: Request<csi::DeleteVolumeGroupSnapshotRequest>,
    ) -> Answer<csi::DeleteVolumeGroupSnapshotResponse> {
        let request = r.into_inner();
        let known = parse::known_group(&request.group_snapshot_id, &request.snapshot_ids)?;
        let Some(id) = known.id else {
            return Ok(Response::new(csi::DeleteVolumeGroupSnapshotResponse {}));
        };
        let have = self.0.pool.groups.get(&id);
        let keys = plan::group_keys(&id, have.as_deref());
        let driver = self.0.clone();
        let work = async move {
            cut::delete(&driver, &id, have.as_deref(), &known.snapshots).await?;
            Ok(csi::DeleteVolumeGroupSnapshotResponse {})
        };
        self.0.work.exclusive(keys, work).await
    }

    async fn get_volume_group_snapshot(
        &self,
        r: Request<csi::GetVolumeGroupSnapshotRequest>,
    ) -> Answer<csi::GetVolumeGroupSnapshotResponse> {
        let request = r.get_ref();
        let known = parse::known_group(&request.group_snapshot_id, &request.snapshot_ids)?;
        let found = known.id.and_then(|id| Some((self.0.pool.groups.get(&id)?, id)));
        let found = found.filter(|(record, _)| record.phase == Phase::Ready);
        let (record, id) = found.ok_or_else(|| parse::absent::<Group>(&known.asked))?;
        plan::same_members(&id, &record, &known.snapshots)?;
        let group_snapshot = Some(list::group(&self.0, &id, &record));
        Ok(Response::new(csi::GetVolumeGroupSnapshotResponse { group_snapshot }))
    }
}
