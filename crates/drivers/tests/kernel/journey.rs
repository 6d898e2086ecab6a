//! One volume and everything a caller does with it.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use bowline_drivers::local::{Dialect, LocalConfig, run};
use bowline_host::real::{RealConfig, host};
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub const NODE: &str = "node-1";
pub const VOLUME: &str = "pvc-1";
const DATA: &[u8] = b"written before, read after";
/// Where in a block device the data goes: past everything a probe looks at.
const OFFSET: u64 = 5 << 20;
const SIZE: i64 = 64 << 20;

/// A directory of its own with pool, socket, staging and target.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        fs::create_dir(scratch.path("staging")).unwrap();
        fs::create_dir(scratch.path("pods")).unwrap();
        scratch
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn image(&self) -> PathBuf {
        self.path("pool/volumes").join(VOLUME).join("disk.img")
    }

    /// Loop devices over the image, as the kernel's own tool finds them.
    pub fn devices(&self) -> Vec<String> {
        let attached = std::process::Command::new("losetup").arg("-j").arg(self.image()).output();
        let attached = attached.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        attached.lines().filter_map(|line| line.split(':').next()).map(String::from).collect()
    }

    pub fn assert_unmounted(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&text(self.0.path())), "a mount is left");
    }

    /// Neither mounts, loop devices nor files of this directory are left.
    pub fn assert_clean(&self) {
        self.assert_unmounted();
        let here = text(self.0.path());
        for device in fs::read_dir("/sys/block").unwrap() {
            let backing = device.unwrap().path().join("loop/backing_file");
            let backing = fs::read_to_string(backing).unwrap_or_default();
            assert!(!backing.contains(&here), "a loop device is left: {backing}");
        }
        for dir in ["pool/volumes", "pool/snapshots", "pool/groups", "pods", "staging"] {
            assert_eq!(fs::read_dir(self.path(dir)).unwrap().count(), 0, "{dir}");
        }
    }
}

impl Drop for Scratch {
    /// A failed test must not leave mounts behind that would break the next. Twice, because the pool may be a
    /// mount itself, which images in it keep busy.
    fn drop(&mut self) {
        let here = self.0.path().to_string_lossy().into_owned();
        for _ in 0..2 {
            unmount_below(&here);
            detach_below(&here);
        }
    }
}

fn unmount_below(here: &str) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in table.lines().rev().filter(|line| line.contains(here)) {
        let target = line.split(' ').nth(4).unwrap_or_default().to_owned();
        // A frozen filesystem would keep its device for ever.
        let _ = std::process::Command::new("fsfreeze").arg("-u").arg(&target).output();
        let _ = std::process::Command::new("umount").arg(target).output();
    }
}

fn detach_below(here: &str) {
    let attached = std::process::Command::new("losetup").args(["-n", "-O", "NAME,BACK-FILE"]).output();
    let attached = attached.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let ours = attached.lines().filter(|line| line.contains(here));
    for device in ours.filter_map(|line| line.split_ascii_whitespace().next()) {
        let _ = std::process::Command::new("losetup").arg("-d").arg(device).output();
    }
}

/// Runs the driver in this process.
pub async fn serve(scratch: &Scratch) -> (JoinHandle<()>, CancellationToken) {
    serve_in(scratch, Dialect::V1_12).await
}

pub async fn serve_in(scratch: &Scratch, dialect: Dialect) -> (JoinHandle<()>, CancellationToken) {
    let stop = CancellationToken::new();
    let (token, socket) = (stop.clone(), scratch.path("csi.sock"));
    let config = LocalConfig::new(scratch.path("pool"), NODE.into()).unwrap();
    let config = LocalConfig { dialect, ..config };
    let host = host(RealConfig::new(scratch.path("state"))).unwrap();
    let task = tokio::spawn(async move { run(host, config, &socket, token).await.unwrap() });
    wait_for(&scratch.path("csi.sock")).await;
    (task, stop)
}

pub async fn wait_for(socket: &Path) {
    for _ in 0..6_000 {
        if UnixStream::connect(socket).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("nobody serves {}", socket.display());
}

pub fn connect(socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

pub struct Caller {
    channel: Channel,
    capability: csi::VolumeCapability,
    pub staging: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
    pub size: i64,
}

pub type Answer = Result<(), Status>;

impl Caller {
    pub fn new(scratch: &Scratch, access: AccessType, mode: Mode) -> Self {
        Self {
            channel: connect(scratch.path("csi.sock")),
            capability: csi::VolumeCapability {
                access_type: Some(access),
                access_mode: Some(AccessMode { mode: mode.into() }),
            },
            staging: scratch.path("staging").join(VOLUME),
            target: scratch.path("pods").join("a"),
            read_only: false,
            size: SIZE,
        }
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
    }

    pub async fn create(&self) -> Answer {
        let request = csi::CreateVolumeRequest {
            name: VOLUME.into(),
            capacity_range: Some(csi::CapacityRange { required_bytes: self.size, limit_bytes: 0 }),
            volume_capabilities: vec![self.capability.clone()],
            ..Default::default()
        };
        self.controller().create_volume(request).await.map(drop)
    }

    pub async fn delete(&self) -> Answer {
        let request = csi::DeleteVolumeRequest { volume_id: VOLUME.into(), ..Default::default() };
        self.controller().delete_volume(request).await.map(drop)
    }

    pub async fn attach(&self) -> Answer {
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: VOLUME.into(),
            node_id: NODE.into(),
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        self.controller().controller_publish_volume(request).await.map(drop)
    }

    pub async fn detach(&self) -> Answer {
        let request =
            csi::ControllerUnpublishVolumeRequest { volume_id: VOLUME.into(), ..Default::default() };
        self.controller().controller_unpublish_volume(request).await.map(drop)
    }

    pub async fn stage(&self) -> Answer {
        fs::create_dir_all(&self.staging).unwrap();
        let request = csi::NodeStageVolumeRequest {
            volume_id: VOLUME.into(),
            staging_target_path: text(&self.staging),
            volume_capability: Some(self.capability.clone()),
            ..Default::default()
        };
        self.node().node_stage_volume(request).await.map(drop)
    }

    pub async fn unstage(&self) -> Answer {
        let staging_target_path = text(&self.staging);
        let request = csi::NodeUnstageVolumeRequest { volume_id: VOLUME.into(), staging_target_path };
        self.node().node_unstage_volume(request).await?;
        // The caller made the staging directory and removes it; it has to be empty by now.
        let _ = fs::remove_dir(&self.staging);
        Ok(())
    }

    pub async fn publish(&self) -> Answer {
        let request = csi::NodePublishVolumeRequest {
            volume_id: VOLUME.into(),
            staging_target_path: text(&self.staging),
            target_path: text(&self.target),
            volume_capability: Some(self.capability.clone()),
            readonly: self.read_only,
            ..Default::default()
        };
        self.node().node_publish_volume(request).await.map(drop)
    }

    pub async fn unpublish(&self) -> Answer {
        let target_path = text(&self.target);
        let request = csi::NodeUnpublishVolumeRequest { volume_id: VOLUME.into(), target_path };
        self.node().node_unpublish_volume(request).await.map(drop)
    }

    /// Reasons for which the node calls the volume unwell.
    pub async fn ailments(&self) -> Vec<String> {
        let request = csi::NodeGetVolumeHealthRequest { volume_id: VOLUME.into(), ..Default::default() };
        let health = self.node().node_get_volume_health(request).await.unwrap().into_inner().volume_health;
        health.unwrap().health_statuses.into_iter().map(|entry| entry.reason).collect()
    }

    pub async fn set_up(&self) -> Answer {
        self.attach().await?;
        self.stage().await?;
        self.publish().await
    }

    pub async fn take_down(&self) -> Answer {
        self.unpublish().await?;
        self.unstage().await?;
        self.detach().await
    }

    pub fn write(&self) {
        let mut file = self.open(true);
        file.write_all(DATA).unwrap();
        file.sync_all().unwrap();
    }

    pub fn read(&self) {
        let mut bytes = vec![0; DATA.len()];
        self.open(false).read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, DATA);
    }

    fn open(&self, write: bool) -> fs::File {
        let device = fs::metadata(&self.target).unwrap().file_type().is_block_device();
        let path = if device { self.target.clone() } else { self.target.join("file") };
        let mut options = fs::OpenOptions::new();
        let mut file = options.read(true).write(write).create(write && !device).open(path).unwrap();
        file.seek(SeekFrom::Start(if device { OFFSET } else { 0 })).unwrap();
        file
    }
}

pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
