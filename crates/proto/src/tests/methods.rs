//! Full method names, seen by a transport that refuses every call.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

use crate::csi::v1::*;
use crate::etcd::kv_client;
use crate::pluginregistration::{registration_client, registration_server};

/// Remembers the path of the last call.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<String>>);

impl Service<http::Request<Body>> for Recorder {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        *self.0.lock().unwrap() = request.uri().path().to_owned();
        ready(Ok(Status::unimplemented("recorded").into_http()))
    }
}

/// The recorder never waits, so one poll finishes a call.
fn finish<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the recorder answered late"),
    }
}

macro_rules! methods {
    ($client:path, $service:literal: $($method:ident $name:literal)+) => {
        let recorder = Recorder::default();
        let mut client = <$client>::new(recorder.clone());
        $(
            let refused = finish(client.$method(tonic::Request::new(Default::default()))).map(drop);
            assert_eq!(refused.map_err(|status| status.code()), Err(Code::Unimplemented));
            assert_eq!(*recorder.0.lock().unwrap(), concat!("/", $service, "/", $name));
        )+
    };
}

#[test]
fn controller_methods_have_their_full_names() {
    methods!(controller_client::ControllerClient<Recorder>, "csi.v1.Controller":
        create_volume "CreateVolume"
        delete_volume "DeleteVolume"
        controller_publish_volume "ControllerPublishVolume"
        controller_unpublish_volume "ControllerUnpublishVolume"
        validate_volume_capabilities "ValidateVolumeCapabilities"
        list_volumes "ListVolumes"
        controller_list_volume_health "ControllerListVolumeHealth"
        controller_get_volume_health "ControllerGetVolumeHealth"
        get_capacity "GetCapacity"
        controller_get_capabilities "ControllerGetCapabilities"
        create_snapshot "CreateSnapshot"
        delete_snapshot "DeleteSnapshot"
        list_snapshots "ListSnapshots"
        get_snapshot "GetSnapshot"
        controller_expand_volume "ControllerExpandVolume"
        controller_get_volume "ControllerGetVolume"
        controller_modify_volume "ControllerModifyVolume");
    methods!(group_controller_client::GroupControllerClient<Recorder>, "csi.v1.GroupController":
        group_controller_get_capabilities "GroupControllerGetCapabilities"
        create_volume_group_snapshot "CreateVolumeGroupSnapshot"
        delete_volume_group_snapshot "DeleteVolumeGroupSnapshot"
        get_volume_group_snapshot "GetVolumeGroupSnapshot");
}

#[test]
fn other_methods_have_their_full_names() {
    methods!(identity_client::IdentityClient<Recorder>, "csi.v1.Identity":
        get_plugin_info "GetPluginInfo"
        get_plugin_capabilities "GetPluginCapabilities"
        probe "Probe");
    methods!(node_client::NodeClient<Recorder>, "csi.v1.Node":
        node_stage_volume "NodeStageVolume"
        node_unstage_volume "NodeUnstageVolume"
        node_publish_volume "NodePublishVolume"
        node_unpublish_volume "NodeUnpublishVolume"
        node_get_volume_stats "NodeGetVolumeStats"
        node_get_volume_health "NodeGetVolumeHealth"
        node_get_storage_health "NodeGetStorageHealth"
        node_expand_volume "NodeExpandVolume"
        node_get_capabilities "NodeGetCapabilities"
        node_get_info "NodeGetInfo");
    methods!(snapshot_metadata_client::SnapshotMetadataClient<Recorder>, "csi.v1.SnapshotMetadata":
        get_metadata_allocated "GetMetadataAllocated"
        get_metadata_delta "GetMetadataDelta");
    methods!(registration_client::RegistrationClient<Recorder>, "pluginregistration.Registration":
        get_info "GetInfo"
        notify_registration_status "NotifyRegistrationStatus");
    methods!(kv_client::KvClient<Recorder>, "etcdserverpb.KV":
        range "Range"
        txn "Txn"
        compact "Compact");
}

#[test]
fn servers_answer_under_the_same_names() {
    assert_eq!(identity_server::IdentityServer::<()>::NAME, "csi.v1.Identity");
    assert_eq!(controller_server::ControllerServer::<()>::NAME, "csi.v1.Controller");
    assert_eq!(group_controller_server::GroupControllerServer::<()>::NAME, "csi.v1.GroupController");
    assert_eq!(snapshot_metadata_server::SnapshotMetadataServer::<()>::NAME, "csi.v1.SnapshotMetadata");
    assert_eq!(node_server::NodeServer::<()>::NAME, "csi.v1.Node");
    assert_eq!(registration_server::RegistrationServer::<()>::NAME, "pluginregistration.Registration");
}
