//! A machine, a running driver, and the caller's side of its socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_host::Host;
use bowline_host::fake::{self, FakeHost};
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::group_controller_client::GroupControllerClient;
use bowline_proto::csi::v1::identity_client::IdentityClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use bowline_proto::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::doors::{Fault, Faults, faulty};
use crate::local::{LocalConfig, NamedNode, TOPOLOGY_KEY, run};

pub const NODE: &str = "node-1";
pub const OTHER_NODE: &str = "node-2";
pub const MIB: i64 = 1 << 20;
const POOL: &str = "/var/lib/pool";
pub const SOCKET: &str = "/var/lib/csi.sock";
const OTHER_SOCKET: &str = "/var/lib/csi-2.sock";
pub const STAGING: &str = "/var/lib/staging";
pub const TARGETS: &str = "/var/lib/pods";

pub type Answer = Result<(), Status>;

pub struct World {
    pub machine: Arc<FakeHost>,
    /// A process without faults, for the test's own looks.
    pub host: Host,
    pub faults: Arc<Faults>,
    pub config: LocalConfig,
    server: JoinHandle<()>,
    channel: Channel,
}

impl World {
    pub async fn new() -> Self {
        let (_, machine) = fake::host(7);
        Self::on(machine, config(), Fault::None).await
    }

    pub async fn with(config: LocalConfig) -> Self {
        let (_, machine) = fake::host(7);
        Self::on(machine, config, Fault::None).await
    }

    pub async fn with_fault(fault: Fault) -> Self {
        let (_, machine) = fake::host(7);
        Self::on(machine, config(), fault).await
    }

    async fn on(machine: Arc<FakeHost>, config: LocalConfig, fault: Fault) -> Self {
        let host = machine.host();
        for dir in [STAGING, TARGETS] {
            host.disk.create_dir_all(Path::new(dir), 0o755).await.unwrap();
        }
        let faults = Faults::new(fault);
        let server = spawn(faulty(&host, &faults), config.clone());
        let channel = connect(&host, SOCKET);
        let world = Self { machine, host, faults, config, server, channel };
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
        self.stop().await;
        Self::on(self.machine, self.config, fault).await
    }

    /// Spoils the record of a volume, so that the next start does not know what it is.
    pub async fn quarantine(self, id: &str) -> Self {
        let path = self.record_path(id);
        let record = String::from_utf8(self.host.disk.read(&path).await.unwrap()).unwrap();
        let newer = record.replace("\"version\": 2", "\"version\": 3");
        assert_ne!(record, newer);
        self.host.disk.write_atomic(&path, newer.as_bytes(), 0o600).await.unwrap();
        self.restart().await
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Kills the process; the machine stays as it is.
    pub async fn stop(&self) {
        self.server.abort();
        while !self.server.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    /// The node service of the other node of this machine.
    pub fn other_node(&self) -> NodeClient<Channel> {
        NodeClient::new(connect(&self.host, OTHER_SOCKET))
    }

    pub fn group_controller(&self) -> GroupControllerClient<Channel> {
        GroupControllerClient::new(self.channel.clone())
    }

    pub fn metadata(&self) -> SnapshotMetadataClient<Channel> {
        SnapshotMetadataClient::new(self.channel.clone())
    }

    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel.clone())
    }

    pub async fn create(&self, name: &str) -> Answer {
        self.controller().create_volume(create(name, mount())).await.map(drop)
    }

    pub async fn create_block(&self, name: &str) -> Answer {
        self.controller().create_volume(create(name, block())).await.map(drop)
    }

    pub async fn delete(&self, id: &str) -> Answer {
        let request = csi::DeleteVolumeRequest { volume_id: id.into(), ..Default::default() };
        self.controller().delete_volume(request).await.map(drop)
    }

    pub async fn attach(&self, id: &str, capability: csi::VolumeCapability) -> Answer {
        self.controller().controller_publish_volume(attach(id, NODE, capability)).await.map(drop)
    }

    pub async fn detach(&self, id: &str) -> Answer {
        let request = csi::ControllerUnpublishVolumeRequest {
            volume_id: id.into(),
            node_id: NODE.into(),
            ..Default::default()
        };
        self.controller().controller_unpublish_volume(request).await.map(drop)
    }

    pub async fn stage(&self, id: &str, capability: csi::VolumeCapability) -> Answer {
        self.host.disk.create_dir_all(&staging(id), 0o755).await.unwrap();
        self.node().node_stage_volume(stage(id, capability)).await.map(drop)
    }

    pub async fn unstage(&self, id: &str) -> Answer {
        let request =
            csi::NodeUnstageVolumeRequest { volume_id: id.into(), staging_target_path: text(staging(id)) };
        self.node().node_unstage_volume(request).await.map(drop)
    }

    pub async fn publish(&self, id: &str, target: &str, capability: csi::VolumeCapability) -> Answer {
        self.node().node_publish_volume(publish(id, target, capability)).await.map(drop)
    }

    pub async fn unpublish(&self, id: &str, name: &str) -> Answer {
        let request =
            csi::NodeUnpublishVolumeRequest { volume_id: id.into(), target_path: text(target(name)) };
        self.node().node_unpublish_volume(request).await.map(drop)
    }

    pub async fn expand(&self, id: &str, required_bytes: i64) -> Answer {
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: id.into(),
            capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
            ..Default::default()
        };
        let answer = self.controller().controller_expand_volume(request).await?.into_inner();
        assert_eq!(answer.capacity_bytes, required_bytes);
        Ok(())
    }

    /// The node's part, where the volume is staged.
    pub async fn node_expand(&self, id: &str) -> Answer {
        let volume_path = text(staging(id));
        let request =
            csi::NodeExpandVolumeRequest { volume_id: id.into(), volume_path, ..Default::default() };
        self.node().node_expand_volume(request).await.map(drop)
    }

    pub async fn modify(&self, id: &str, settings: &[(&str, &str)]) -> Answer {
        let mutable_parameters = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let volume_id = id.into();
        let request =
            csi::ControllerModifyVolumeRequest { volume_id, mutable_parameters, ..Default::default() };
        self.controller().controller_modify_volume(request).await.map(drop)
    }

    /// From nothing to staged.
    pub async fn staged(&self, id: &str, capability: csi::VolumeCapability) {
        self.controller().create_volume(create(id, capability.clone())).await.unwrap();
        self.attach(id, capability.clone()).await.unwrap();
        self.stage(id, capability).await.unwrap();
    }

    pub fn image(&self, id: &str) -> PathBuf {
        Path::new(POOL).join("volumes").join(id).join("disk.img")
    }

    pub fn snapshot_image(&self, id: &str) -> PathBuf {
        Path::new(POOL).join("snapshots").join(id).join("disk.img")
    }

    pub fn record_path(&self, id: &str) -> PathBuf {
        self.image(id).with_file_name("record.json")
    }

    pub async fn exists(&self, path: &Path) -> bool {
        self.host.disk.kind(path).await.unwrap().is_some()
    }

    /// Nothing of any volume is left on the machine.
    pub async fn assert_clean(&self, why: &str) {
        assert_eq!(self.machine.mounts(), [], "{why}");
        assert_eq!(self.machine.loops(), [], "{why}");
        for kind in ["volumes", "snapshots", "groups"] {
            let left = self.host.disk.list(&Path::new(POOL).join(kind)).await.unwrap();
            assert_eq!(left, Vec::<String>::new(), "{kind}, {why}");
        }
        assert_eq!(self.host.disk.list(Path::new(TARGETS)).await.unwrap(), Vec::<String>::new(), "{why}");
    }
}

fn spawn(host: Host, config: LocalConfig) -> JoinHandle<()> {
    tokio::spawn(async move {
        run(host, config, Path::new(SOCKET), CancellationToken::new()).await.expect("driver runs");
    })
}

fn connect(host: &Host, socket: &'static str) -> Channel {
    let host = host.clone();
    let connector = tower::service_fn(move |_| {
        let host = host.clone();
        async move { host.net.connect(Path::new(socket)).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

pub fn config() -> LocalConfig {
    let config = LocalConfig::new(POOL.into(), NODE.into()).expect("valid");
    let other = NamedNode::new(OTHER_NODE.into()).expect("valid");
    let other = NamedNode { endpoint: Some(OTHER_SOCKET.into()), ..other };
    let mut config = LocalConfig { others: vec![other], ..config };
    config.share_topology(&[(TOPOLOGY_KEY.to_owned(), NODE.to_owned())].into());
    config
}

pub fn mount() -> csi::VolumeCapability {
    mount_as("ext4", Mode::SingleNodeWriter)
}

pub fn mount_as(fs: &str, mode: Mode) -> csi::VolumeCapability {
    let mount = MountVolume { fs_type: fs.into(), ..Default::default() };
    capability(AccessType::Mount(mount), mode)
}

pub fn mount_with(flags: &[&str]) -> csi::VolumeCapability {
    let mount_flags = flags.iter().map(ToString::to_string).collect();
    let mount = MountVolume { fs_type: "ext4".into(), mount_flags, ..Default::default() };
    capability(AccessType::Mount(mount), Mode::SingleNodeWriter)
}

pub fn block() -> csi::VolumeCapability {
    block_as(Mode::SingleNodeWriter)
}

pub fn block_as(mode: Mode) -> csi::VolumeCapability {
    capability(AccessType::Block(BlockVolume {}), mode)
}

fn capability(access: AccessType, mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability { access_type: Some(access), access_mode: Some(AccessMode { mode: mode.into() }) }
}

pub fn create(name: &str, capability: csi::VolumeCapability) -> csi::CreateVolumeRequest {
    csi::CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 64 * MIB, limit_bytes: 0 }),
        volume_capabilities: vec![capability],
        ..Default::default()
    }
}

pub fn attach(
    id: &str,
    node: &str,
    capability: csi::VolumeCapability,
) -> csi::ControllerPublishVolumeRequest {
    csi::ControllerPublishVolumeRequest {
        volume_id: id.into(),
        node_id: node.into(),
        volume_capability: Some(capability),
        ..Default::default()
    }
}

pub fn stage(id: &str, capability: csi::VolumeCapability) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: id.into(),
        staging_target_path: text(staging(id)),
        volume_capability: Some(capability),
        ..Default::default()
    }
}

pub fn publish(id: &str, name: &str, capability: csi::VolumeCapability) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: id.into(),
        staging_target_path: text(staging(id)),
        target_path: text(target(name)),
        volume_capability: Some(capability),
        ..Default::default()
    }
}

pub fn staging(id: &str) -> PathBuf {
    Path::new(STAGING).join(id)
}

pub fn target(name: &str) -> PathBuf {
    Path::new(TARGETS).join(name)
}

pub fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// The code of an answer, `Ok` included.
pub fn code<T>(answer: &Result<T, Status>) -> Code {
    answer.as_ref().map_or_else(Status::code, |_| Code::Ok)
}
