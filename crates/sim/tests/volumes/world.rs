//! A driver in memory, and a process with the roles that move volumes.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use bowline_api::{CSINode, Node, keys};
use bowline_machinery::effect::Part;
use bowline_machinery::incoming::accepted;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Ports, RunError, Sidecar, role};
use bowline_proto::csi::v1::controller_server::ControllerServer;
use bowline_proto::csi::v1::identity_server::IdentityServer;
use bowline_roles::controllers::{attachdetach, persistentvolume, pvcprotection, pvprotection};
use bowline_roles::flags;
use bowline_roles::sidecars::external_provisioner::capacity::{CapacityPublisher, Environment};
use bowline_roles::sidecars::{external_attacher, external_provisioner};
use bowline_sim::stage::{Cut, Line, Listed, Process, Stage};
use http::Method;
use serde_json::json;

use super::driver::{Driver, NAME};

const SOCKET: &str = "/csi/csi.sock";

pub struct World {
    stage: Stage,
    pub driver: Driver,
}

impl Deref for World {
    type Target = Stage;
    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl World {
    pub async fn new() -> Self {
        let stage = Stage::new(7).await;
        let driver = Driver::default();
        stage.host.disk.create_dir_all(Path::new("/csi"), 0o755).await.unwrap();
        let listener = stage.host.net.listen(Path::new(SOCKET)).await.unwrap();
        let serving = tonic::transport::Server::builder()
            .add_service(IdentityServer::new(driver.clone()))
            .add_service(ControllerServer::new(driver.clone()));
        tokio::spawn(serving.serve_with_incoming(accepted(listener)));
        Self { stage, driver }
    }

    /// A ready node with the driver on it, whose kubelet leaves attaching to the controller.
    pub async fn add_node(&self, name: &str) -> Node {
        let managed = json!({keys::CONTROLLER_MANAGED_ATTACH: "true"});
        let node = json!({"metadata": {"name": name, "annotations": managed}});
        let node: Node = self.create(&serde_json::from_value(node).unwrap()).await;
        self.ready(&node, true).await;
        let driver = json!({"name": NAME, "nodeID": format!("id-of-{name}"), "topologyKeys": null});
        let csi = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
        self.create::<CSINode>(&serde_json::from_value(csi).unwrap()).await;
        node
    }

    pub async fn ready(&self, node: &Node, ready: bool) {
        let status = if ready { "True" } else { "Unknown" };
        let time = "2026-01-01T00:00:00Z";
        let condition = json!({"type": "Ready", "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time, "reason": "r", "message": "m"});
        self.patch(Part::Status, node, json!({"status": {"conditions": [condition]}})).await;
    }

    /// What the kubelet says it may have mounted.
    pub async fn in_use(&self, node: &Node, volumes: &[&str]) {
        self.patch(Part::Status, node, json!({"status": {"volumesInUse": volumes}})).await;
    }

    /// Starts the roles as one process on a connection of its own.
    pub fn start(&self, cut: Option<Cut>) -> Process {
        self.start_on(self.line().cut(cut))
    }

    /// Starts the roles without the right to requests whose path has this in it.
    pub fn start_without(&self, path: &'static str) -> Process {
        self.start_on(self.line().forbidding(None, path))
    }

    /// Starts the roles without the right to one method of such requests.
    pub fn start_without_method(&self, method: Method, path: &'static str) -> Process {
        self.start_on(self.line().forbidding(Some(method), path))
    }

    /// Starts the roles on an API server whose copy of one kind stays as it was.
    pub fn start_lagging(&self, listed: Listed) -> Process {
        self.start_on(self.line().lagging(listed))
    }

    /// Starts all roles but the provisioner.
    pub fn start_others(&self) -> Process {
        others(self.process(self.line()))
    }

    /// Starts the provisioner alone, maybe on an API server whose copy of one kind stays as it was.
    pub fn start_provisioner(&self, lagging: Option<Listed>) -> Process {
        let line = self.line();
        provisioner(self.process(match lagging {
            Some(listed) => line.lagging(listed),
            None => line,
        }))
    }

    /// Starts what publishes the driver's room, alone.
    pub fn start_capacity(&self) -> Process {
        let process = self.process(self.line());
        let ports = process.ports.clone();
        process.with(async move {
            let Some(sidecar) = connected(&ports, "external-provisioner").await? else { return Ok(()) };
            let flags = flags(&["--enable-capacity", "--capacity-ownerref-level=-1"]).unwrap();
            let environment = Environment { namespace: Some("default".into()), ..Environment::default() };
            role::run::<CapacityPublisher>(ports, (sidecar, flags, environment)).await
        })
    }

    fn start_on(&self, line: Line) -> Process {
        provisioner(others(self.process(line)))
    }
}

fn others(process: Process) -> Process {
    let ports = process.ports.clone();
    let attaching = ports.clone();
    process
        .with(role::run::<persistentvolume::Binder>(ports.clone(), flags(&[]).unwrap()))
        .with(role::run::<pvcprotection::Protection>(ports.clone(), ()))
        .with(role::run::<pvprotection::Protection>(ports.clone(), ()))
        .with(role::run::<attachdetach::Controller>(ports, flags(&[]).unwrap()))
        .with(async move {
            let ports = attaching;
            let Some(sidecar) = connected(&ports, "external-attacher").await? else { return Ok(()) };
            role::run::<external_attacher::Attacher>(ports, (sidecar, flags(&[]).unwrap())).await
        })
}

fn provisioner(process: Process) -> Process {
    let ports = process.ports.clone();
    process.with(async move {
        let Some(sidecar) = connected(&ports, "external-provisioner").await? else { return Ok(()) };
        role::run::<external_provisioner::Provisioner>(ports, (sidecar, flags(&[]).unwrap())).await
    })
}

/// The driver, unless the process is stopped before it answers.
async fn connected(ports: &Ports, name: &'static str) -> Result<Option<Sidecar>, RunError> {
    let timeout = Duration::from_secs(15);
    tokio::select! {
        () = ports.stop.cancelled() => Ok(None),
        sidecar = Sidecar::connect(ports, name, Path::new(SOCKET), timeout, Backoff::SIDECAR) => sidecar.map(Some),
    }
}
