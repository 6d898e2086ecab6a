//! A CSI driver in memory that keeps count, and fails as it is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bowline_proto::csi::v1::controller_server::Controller;
use bowline_proto::csi::v1::controller_service_capability::rpc::Type as Rpc;
use bowline_proto::csi::v1::identity_server::Identity;
use bowline_proto::csi::v1::plugin_capability::service::Type as Service;
use bowline_proto::csi::v1::*;
use tonic::{Code, Request, Response, Status};

pub const NAME: &str = "d.example";

/// How a call goes wrong: whether it takes effect, and the code of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub done: bool,
    pub code: Code,
}

#[derive(Default)]
pub struct State {
    /// Name → id.
    pub volumes: BTreeMap<String, String>,
    /// Volume id and node id.
    pub published: BTreeSet<(String, String)>,
    /// All ids that were ever made.
    pub made: BTreeSet<String>,
    /// `<rpc> <volume> [<node>]`, in order.
    pub calls: Vec<String>,
    /// Of each CreateVolume.
    pub parameters: Vec<BTreeMap<String, String>>,
    pub faults: BTreeMap<&'static str, VecDeque<Fault>>,
    /// What volumes were copied from.
    pub copied: BTreeMap<String, Option<VolumeContentSource>>,
    /// What GetCapacity answers.
    pub room: i64,
    /// Promises that a call broke.
    pub broken: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Driver(Arc<Mutex<State>>);

impl Driver {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn fail(&self, rpc: &'static str, done: bool, code: Code) {
        self.state().faults.entry(rpc).or_default().push_back(Fault { done, code });
    }

    /// Runs a call, unless a fault comes before it, and answers, unless a fault comes after it.
    fn serve<T>(
        &self,
        rpc: &'static str,
        about: &str,
        effect: impl FnOnce(&mut State) -> T,
    ) -> Result<Response<T>, Status> {
        let mut state = self.state();
        state.calls.push(format!("{rpc} {about}"));
        let fault = state.faults.get_mut(rpc).and_then(VecDeque::pop_front);
        match fault {
            Some(Fault { done: false, code }) => Err(Status::new(code, "as told")),
            Some(Fault { done: true, code }) => {
                effect(&mut state);
                Err(Status::new(code, "as told"))
            }
            None => Ok(Response::new(effect(&mut state))),
        }
    }
}

#[async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse { name: NAME.into(), ..Default::default() }))
    }
    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let service = plugin_capability::Service { r#type: Service::ControllerService as i32 };
        let capability = PluginCapability { r#type: Some(plugin_capability::Type::Service(service)) };
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities: vec![capability] }))
    }
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: None }))
    }
}

#[async_trait]
impl Controller for Driver {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let bytes = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        self.state().parameters.push(request.parameters.clone());
        let content_source = request.volume_content_source.clone();
        self.serve("CreateVolume", &request.name.clone(), |state| {
            let id =
                state.volumes.entry(request.name.clone()).or_insert_with(|| format!("id-{}", request.name));
            let (volume_id, content_source) = (id.clone(), content_source.clone());
            state.copied.insert(volume_id.clone(), content_source.clone());
            let volume = Volume { volume_id, capacity_bytes: bytes, content_source, ..Default::default() };
            state.made.insert(volume.volume_id.clone());
            CreateVolumeResponse { volume: Some(volume) }
        })
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        self.serve("DeleteVolume", &id.clone(), |state| {
            if state.published.iter().any(|(volume, _)| *volume == id) {
                state.broken.push(format!("{id} is deleted while published"));
            }
            state.volumes.retain(|_, volume| *volume != id);
            DeleteVolumeResponse {}
        })
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let ControllerPublishVolumeRequest { volume_id, node_id, .. } = request.into_inner();
        self.serve("ControllerPublishVolume", &format!("{volume_id} {node_id}"), |state| {
            if state.published.iter().any(|(volume, node)| *volume == volume_id && *node != node_id) {
                state.broken.push(format!("ATT-2: {volume_id} is published twice"));
            }
            state.published.insert((volume_id.clone(), node_id.clone()));
            let publish_context =
                BTreeMap::from([("device".to_owned(), format!("{volume_id}-on-{node_id}"))]);
            ControllerPublishVolumeResponse { publish_context }
        })
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let ControllerUnpublishVolumeRequest { volume_id, node_id, .. } = request.into_inner();
        self.serve("ControllerUnpublishVolume", &format!("{volume_id} {node_id}"), |state| {
            state.published.remove(&(volume_id.clone(), node_id.clone()));
            ControllerUnpublishVolumeResponse {}
        })
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let rpc = |rpc: Rpc| {
            let rpc = controller_service_capability::Rpc { r#type: rpc as i32 };
            ControllerServiceCapability { r#type: Some(controller_service_capability::Type::Rpc(rpc)) }
        };
        let capabilities = [
            Rpc::CreateDeleteVolume,
            Rpc::PublishUnpublishVolume,
            Rpc::CloneVolume,
            Rpc::ListVolumes,
            Rpc::ListVolumesPublishedNodes,
        ]
        .map(rpc)
        .into();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn validate_volume_capabilities(
        &self,
        _: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn list_volumes(
        &self,
        _: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let state = self.state();
        let entry = |id: &String| {
            let nodes =
                state.published.iter().filter(|(volume, _)| volume == id).map(|(_, node)| node.clone());
            let published_node_ids = nodes.collect();
            let status = list_volumes_response::VolumeStatus { published_node_ids, ..Default::default() };
            let volume = Volume { volume_id: id.clone(), ..Default::default() };
            list_volumes_response::Entry { volume: Some(volume), status: Some(status) }
        };
        let entries = state.volumes.values().map(entry).collect();
        Ok(Response::new(ListVolumesResponse { entries, next_token: String::new() }))
    }
    async fn get_capacity(
        &self,
        _: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        self.serve("GetCapacity", "", |state| GetCapacityResponse {
            available_capacity: state.room,
            ..Default::default()
        })
    }
    async fn create_snapshot(
        &self,
        _: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn delete_snapshot(
        &self,
        _: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn list_snapshots(
        &self,
        _: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn get_snapshot(
        &self,
        _: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn controller_expand_volume(
        &self,
        _: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn controller_get_volume(
        &self,
        _: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
    async fn controller_modify_volume(
        &self,
        _: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}
