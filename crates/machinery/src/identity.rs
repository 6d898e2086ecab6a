//! Who stands behind a CSI socket: its name and what it can do. Asked once, when a sidecar starts.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::csi::{Classes, Driver, call};
use crate::effect::{EffectError, Effects, Fate};
use crate::ports::RunError;
use bowline_proto::csi::v1::controller_service_capability::{self, rpc};
use bowline_proto::csi::v1::plugin_capability::{self, service};
use bowline_proto::csi::v1::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest, ProbeRequest,
};

/// First and longest pause between two probes of a driver that is not ready.
const PROBE_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What a driver says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub name: String,
    pub services: BTreeSet<i32>,
    pub controller: BTreeSet<i32>,
}

impl Identity {
    pub fn has(&self, service: service::Type) -> bool {
        self.services.contains(&(service as i32))
    }

    pub fn can(&self, rpc: rpc::Type) -> bool {
        self.controller.contains(&(rpc as i32))
    }

    /// Waits until the driver is ready and asks who it is.
    pub async fn ask(driver: &Driver, effects: &Effects, timeout: Duration) -> Result<Self, RunError> {
        let asked = async {
            ready(driver, effects, timeout).await?;
            let name = name(driver, effects, timeout).await?;
            let services = services(driver, effects, timeout).await?;
            let mut identity = Self { name, services, controller: BTreeSet::new() };
            if identity.has(service::Type::ControllerService) {
                identity.controller = controller(driver, effects, timeout).await?;
            }
            Ok(identity)
        };
        asked.await.map_err(|source| RunError::Effect { what: "ask the CSI driver who it is", source })
    }
}

/// A driver that is still starting, or whose socket is not there yet, is waited for; any other error is final.
async fn ready(driver: &Driver, effects: &Effects, timeout: Duration) -> Result<(), EffectError> {
    let mut pause = PROBE_PAUSE.0;
    loop {
        let send = |request| async move { driver.identity().probe(request).await };
        let answer = call(effects, "Probe", "driver", timeout, Classes::Default, ProbeRequest {}, send).await;
        match answer {
            Ok(answer) if answer.ready.unwrap_or(true) => return Ok(()),
            Ok(_) => tracing::debug!(socket = %driver.path().display(), "driver is not ready yet"),
            Err(error) if error.fate == Fate::Unknown => {
                tracing::debug!(socket = %driver.path().display(), %error, "driver does not answer yet");
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PROBE_PAUSE.1);
    }
}

/// The driver's name.
pub async fn name(driver: &Driver, effects: &Effects, timeout: Duration) -> Result<String, EffectError> {
    let send = |request| async move { driver.identity().get_plugin_info(request).await };
    let request = GetPluginInfoRequest {};
    let info = call(effects, "GetPluginInfo", "driver", timeout, Classes::Default, request, send).await?;
    if info.name.is_empty() {
        return Err(EffectError::refused("driver name is empty"));
    }
    Ok(info.name)
}

async fn services(
    driver: &Driver,
    effects: &Effects,
    timeout: Duration,
) -> Result<BTreeSet<i32>, EffectError> {
    let send = |request| async move { driver.identity().get_plugin_capabilities(request).await };
    let request = GetPluginCapabilitiesRequest {};
    let answer =
        call(effects, "GetPluginCapabilities", "driver", timeout, Classes::Default, request, send).await?;
    let service = |capability: plugin_capability::Type| match capability {
        plugin_capability::Type::Service(service) => Some(service.r#type),
        plugin_capability::Type::VolumeExpansion(_) => None,
    };
    Ok(answer.capabilities.into_iter().filter_map(|c| c.r#type.and_then(service)).collect())
}

async fn controller(
    driver: &Driver,
    effects: &Effects,
    timeout: Duration,
) -> Result<BTreeSet<i32>, EffectError> {
    let send = |request| async move { driver.controller().controller_get_capabilities(request).await };
    let request = ControllerGetCapabilitiesRequest {};
    let answer =
        call(effects, "ControllerGetCapabilities", "driver", timeout, Classes::Default, request, send)
            .await?;
    let rpc = |controller_service_capability::Type::Rpc(rpc)| rpc.r#type;
    Ok(answer.capabilities.into_iter().filter_map(|c| c.r#type.map(rpc)).collect())
}
