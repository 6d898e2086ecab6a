//! A machine, a running driver, and the caller's side of its socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use bowline_host::fake::{self, FakeHost};
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::identity_client::IdentityClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::doors::{Fault, Faults, faulty};
use crate::share::{ShareConfig, run};

pub const NODE: &str = "node-1";
pub const MIB: i64 = 1 << 20;
const POOL: &str = "/var/lib/pool";
const SOCKET: &str = "/var/lib/csi.sock";
const TARGETS: &str = "/var/lib/pods";

pub type Answer = Result<(), Status>;

pub struct World {
    pub machine: Arc<FakeHost>,
    /// A process without faults, for the test's own looks.
    pub host: Host,
    pub faults: Arc<Faults>,
    server: JoinHandle<()>,
    channel: Channel,
}

impl World {
    pub async fn new() -> Self {
        Self::with_fault(Fault::None).await
    }

    pub async fn with_fault(fault: Fault) -> Self {
        let (_, machine) = fake::host(7);
        Self::on(machine, fault).await
    }

    async fn on(machine: Arc<FakeHost>, fault: Fault) -> Self {
        let host = machine.host();
        host.disk.create_dir_all(Path::new(TARGETS), 0o755).await.unwrap();
        let faults = Faults::new(fault);
        let server = spawn(faulty(&host, &faults));
        let channel = connect(&host);
        let world = Self { machine, host, faults, server, channel };
        // Accepted only when the pool is open, so effects of the start are over.
        for _ in 0..100 {
            if world.host.net.connect(Path::new(SOCKET)).await.is_ok() {
                break;
            }
            tokio::task::yield_now().await;
        }
        world.faults.arm();
        world
    }

    /// Kills the process and starts another on the same machine.
    pub async fn restart(self) -> Self {
        self.restart_with(Fault::None).await
    }

    pub async fn restart_with(self, fault: Fault) -> Self {
        self.server.abort();
        let _ = self.server.await;
        Self::on(self.machine, fault).await
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel.clone())
    }

    pub async fn create(&self, name: &str) -> Answer {
        self.controller().create_volume(create(name)).await.map(drop)
    }

    pub async fn delete(&self, id: &str) -> Answer {
        let request = csi::DeleteVolumeRequest { volume_id: id.into(), ..Default::default() };
        self.controller().delete_volume(request).await.map(drop)
    }

    pub async fn expand(&self, id: &str, required_bytes: i64) -> Answer {
        self.controller().controller_expand_volume(expand(id, required_bytes)).await.map(drop)
    }

    pub async fn publish(&self, id: &str, name: &str) -> Answer {
        self.node().node_publish_volume(publish(id, name)).await.map(drop)
    }

    pub async fn publish_inline(&self, id: &str, name: &str) -> Answer {
        self.node().node_publish_volume(inline(id, name)).await.map(drop)
    }

    pub async fn unpublish(&self, id: &str, name: &str) -> Answer {
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: id.into(), target_path: text(&target(name)) };
        self.node().node_unpublish_volume(request).await.map(drop)
    }

    pub async fn write(&self, path: &Path) -> std::io::Result<()> {
        self.host.disk.write_atomic(path, b"data", 0o600).await
    }

    pub async fn exists(&self, path: &Path) -> bool {
        self.host.disk.kind(path).await.unwrap().is_some()
    }

    /// Nothing of any volume is left on the machine.
    pub async fn assert_clean(&self, why: &str) {
        assert_eq!(self.machine.mounts(), [], "{why}");
        let volumes = self.host.disk.list(&Path::new(POOL).join("shares")).await.unwrap();
        assert_eq!(volumes, Vec::<String>::new(), "{why}");
        assert_eq!(self.host.disk.list(Path::new(TARGETS)).await.unwrap(), Vec::<String>::new(), "{why}");
    }
}

fn spawn(host: Host) -> JoinHandle<()> {
    tokio::spawn(async move {
        run(host, config(), Path::new(SOCKET), CancellationToken::new()).await.expect("driver runs");
    })
}

fn connect(host: &Host) -> Channel {
    let host = host.clone();
    let connector = tower::service_fn(move |_| {
        let host = host.clone();
        async move { host.net.connect(Path::new(SOCKET)).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

pub fn config() -> ShareConfig {
    ShareConfig::new(POOL.into(), NODE.into()).expect("valid")
}

pub fn data(id: &str) -> PathBuf {
    Path::new(POOL).join("shares").join(id).join("data")
}

pub fn target(name: &str) -> PathBuf {
    Path::new(TARGETS).join(name)
}

pub fn capability(mode: Mode) -> csi::VolumeCapability {
    access(AccessType::Mount(MountVolume::default()), mode)
}

pub fn with_group(group: &str) -> csi::VolumeCapability {
    let mount = MountVolume { volume_mount_group: group.into(), ..Default::default() };
    access(AccessType::Mount(mount), Mode::MultiNodeMultiWriter)
}

pub fn block() -> csi::VolumeCapability {
    access(AccessType::Block(BlockVolume {}), Mode::MultiNodeMultiWriter)
}

fn access(access: AccessType, mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability { access_type: Some(access), access_mode: Some(AccessMode { mode: mode.into() }) }
}

pub fn create(name: &str) -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 64 * MIB, limit_bytes: 0 }),
        volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
        ..Default::default()
    }
}

pub fn expand(id: &str, required_bytes: i64) -> csi::ControllerExpandVolumeRequest {
    csi::ControllerExpandVolumeRequest {
        volume_id: id.into(),
        capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
        ..Default::default()
    }
}

pub fn publish(id: &str, name: &str) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: id.into(),
        target_path: text(&target(name)),
        volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
        ..Default::default()
    }
}

/// As a kubelet asks for a volume that stands in the pod itself.
pub fn inline(id: &str, name: &str) -> csi::NodePublishVolumeRequest {
    let context = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "web-0"),
        ("directoryMode", "0755"),
    ];
    csi::NodePublishVolumeRequest {
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        volume_context: context.map(|(key, value)| (key.into(), value.into())).into(),
        ..publish(id, name)
    }
}

pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The code of an answer, `Ok` included.
pub fn code<T>(answer: &Result<T, Status>) -> Code {
    answer.as_ref().map_or_else(Status::code, |_| Code::Ok)
}
