//! The kubelet's questions.

use async_trait::async_trait;
use bowline_proto::pluginregistration::registration_server::Registration;
use bowline_proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// What kind of plugin this is.
const CSI_PLUGIN_TYPE: &str = "CSIPlugin";
/// The class of CSI versions that the kubelet checks for.
const SUPPORTED_VERSIONS: [&str; 1] = ["1.0.0"];

/// Answers the kubelet for one driver.
pub(super) struct Registrar {
    pub(super) driver: String,
    /// The driver's socket as the kubelet reaches it.
    pub(super) endpoint: String,
    /// Where a refusal goes.
    pub(super) refusal: watch::Sender<Option<String>>,
}

#[async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: CSI_PLUGIN_TYPE.into(),
            name: self.driver.clone(),
            endpoint: self.endpoint.clone(),
            supported_versions: SUPPORTED_VERSIONS.map(String::from).into(),
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = status.into_inner();
        if status.plugin_registered {
            tracing::info!(driver = self.driver, "the kubelet has registered the driver");
        } else {
            self.refusal.send_replace(Some(status.error));
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
