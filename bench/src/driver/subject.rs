//! A driver to be measured, known by nothing but its socket.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use bowline_host::Host;
use bowline_machinery::csi::Driver;
use bowline_proto::csi::v1::{
    self as csi, controller_service_capability as controller, node_service_capability as node,
};
use tokio::net::UnixStream;
use tonic::Status;

pub struct Subject {
    /// Its column in the table.
    pub name: String,
    pub driver: Driver,
    /// The process that listens on the socket, where the kernel knows it.
    pub pid: Option<u32>,
    pub node_id: String,
    pub topology: Option<csi::Topology>,
    controller: BTreeSet<i32>,
    node: BTreeSet<i32>,
}

impl Subject {
    /// Asks the driver what it can do and where its node is.
    pub async fn meet(host: &Host, socket: &Path, name: Option<&str>, pid: Option<u32>) -> Result<Self> {
        let meet = async {
            let driver = Driver::at(host, socket);
            let said = driver.identity().get_plugin_info(csi::GetPluginInfoRequest {}).await;
            let own_name = said.map_err(why)?.into_inner().name;
            let said = driver.node().node_get_info(csi::NodeGetInfoRequest {}).await;
            let info = said.map_err(why)?.into_inner();
            let (controller, node) = (controller_abilities(&driver).await?, node_abilities(&driver).await?);
            let pid = match pid {
                Some(pid) => Some(pid),
                None => listener(socket).await?,
            };
            anyhow::Ok(Self {
                name: name.map_or(own_name, str::to_owned),
                driver,
                pid,
                node_id: info.node_id,
                topology: info.accessible_topology,
                controller,
                node,
            })
        };
        meet.await.with_context(|| format!("meet the driver at `{}`", socket.display()))
    }

    pub fn attaches(&self) -> bool {
        self.controller.contains(&controller::rpc::Type::PublishUnpublishVolume.into())
    }
    pub fn stages(&self) -> bool {
        self.node.contains(&node::rpc::Type::StageUnstageVolume.into())
    }
    pub fn clones(&self) -> bool {
        self.controller.contains(&controller::rpc::Type::CloneVolume.into())
    }
    pub fn lists(&self) -> bool {
        self.controller.contains(&controller::rpc::Type::ListVolumes.into())
    }
}

/// What a driver answered, as people quote it.
pub fn why(status: Status) -> anyhow::Error {
    anyhow::anyhow!("{:?}: {}", status.code(), status.message())
}

async fn controller_abilities(driver: &Driver) -> Result<BTreeSet<i32>> {
    let request = csi::ControllerGetCapabilitiesRequest {};
    let said = driver.controller().controller_get_capabilities(request).await.map_err(why)?;
    let types = said.into_inner().capabilities.into_iter().filter_map(|capability| capability.r#type);
    Ok(types.map(|controller::Type::Rpc(rpc)| rpc.r#type).collect())
}

async fn node_abilities(driver: &Driver) -> Result<BTreeSet<i32>> {
    let request = csi::NodeGetCapabilitiesRequest {};
    let said = driver.node().node_get_capabilities(request).await.map_err(why)?;
    let types = said.into_inner().capabilities.into_iter().filter_map(|capability| capability.r#type);
    Ok(types.map(|node::Type::Rpc(rpc)| rpc.r#type).collect())
}

/// The kernel remembers who called listen(2) on a UNIX socket.
async fn listener(socket: &Path) -> Result<Option<u32>> {
    let stream = UnixStream::connect(socket).await.context("connect")?;
    let pid = stream.peer_cred().context("ask who listens")?.pid();
    Ok(pid.and_then(|pid| u32::try_from(pid).ok()))
}
