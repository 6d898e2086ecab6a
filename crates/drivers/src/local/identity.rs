//! The Identity service.

use std::sync::Arc;

use bowline_proto::csi::v1::identity_server::Identity;
use bowline_proto::csi::v1::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use bowline_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

use super::NAME;
use super::driver::Driver;

pub struct IdentityService(pub Arc<Driver>);

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let vendor_version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Response::new(GetPluginInfoResponse {
            name: NAME.to_owned(),
            vendor_version,
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let services = [
            service::Type::ControllerService,
            service::Type::VolumeAccessibilityConstraints,
            service::Type::GroupControllerService,
            service::Type::SnapshotMetadataService,
        ];
        let capability =
            |s: service::Type| PluginCapability { r#type: Some(Type::Service(Service { r#type: s.into() })) };
        let online = VolumeExpansion { r#type: volume_expansion::Type::Online.into() };
        let online = PluginCapability { r#type: Some(Type::VolumeExpansion(online)) };
        let topology = self.0.config.dialect.has_snapshot_topology();
        let topology = topology.then_some(service::Type::SnapshotAccessibilityConstraints);
        let services = services.into_iter().chain(topology);
        let capabilities = services.map(capability).chain([online]).collect();
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.0.pool.check_writable().await?;
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
