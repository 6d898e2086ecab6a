//! Directories that many workloads share, on the real kernel.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_drivers::share::{ShareConfig, run};
use bowline_host::real::{RealConfig, host};
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use bowline_proto::csi::v1::node_client::NodeClient;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Code;
use tonic::transport::Channel;

use crate::journey::{Answer, NODE, Scratch, connect, text, wait_for};

const VOLUME: &str = "pvc-1";

/// Serves from a directory until the token is cancelled.
pub async fn serve(directory: PathBuf, stop: CancellationToken) {
    let config = ShareConfig::new(directory.join("pool"), NODE.into()).unwrap();
    let host = host(RealConfig::new(directory.join("state"))).unwrap();
    run(host, config, &directory.join("csi.sock"), stop).await.unwrap();
}

async fn start(scratch: &Scratch) -> (Caller, DropGuard) {
    let stop = CancellationToken::new();
    tokio::spawn(serve(scratch.path(""), stop.clone()));
    wait_for(&scratch.path("csi.sock")).await;
    (Caller::new(scratch), stop.drop_guard())
}

/// Everything a caller does with one volume.
pub struct Caller {
    channel: Channel,
    pods: PathBuf,
    pool: PathBuf,
}

impl Caller {
    pub fn new(scratch: &Scratch) -> Self {
        let channel = connect(scratch.path("csi.sock"));
        Self { channel, pods: scratch.path("pods"), pool: scratch.path("pool/shares") }
    }

    pub fn target(&self, name: &str) -> PathBuf {
        self.pods.join(name)
    }

    fn data(&self) -> PathBuf {
        self.pool.join(VOLUME).join("data")
    }

    pub async fn create(&self) -> Answer {
        self.create_with(&[]).await
    }

    async fn create_with(&self, parameters: &[(&str, &str)]) -> Answer {
        let request = csi::CreateVolumeRequest {
            name: VOLUME.into(),
            volume_capabilities: vec![capability("")],
            parameters: parameters.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            ..Default::default()
        };
        ControllerClient::new(self.channel.clone()).create_volume(request).await.map(drop)
    }

    pub async fn delete(&self) -> Answer {
        let request = csi::DeleteVolumeRequest { volume_id: VOLUME.into(), ..Default::default() };
        ControllerClient::new(self.channel.clone()).delete_volume(request).await.map(drop)
    }

    pub fn publish_request(&self, name: &str) -> csi::NodePublishVolumeRequest {
        csi::NodePublishVolumeRequest {
            volume_id: VOLUME.into(),
            target_path: text(&self.target(name)),
            volume_capability: Some(capability("")),
            ..Default::default()
        }
    }

    pub async fn send(&self, request: csi::NodePublishVolumeRequest) -> Answer {
        NodeClient::new(self.channel.clone()).node_publish_volume(request).await.map(drop)
    }

    pub async fn publish(&self, name: &str) -> Answer {
        self.send(self.publish_request(name)).await
    }

    pub async fn publish_inline(&self, name: &str) -> Answer {
        let context = [("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned())];
        let request = self.publish_request(name);
        self.send(csi::NodePublishVolumeRequest { volume_context: context.into(), ..request }).await
    }

    pub async fn unpublish(&self, name: &str) -> Answer {
        let target_path = text(&self.target(name));
        let request = csi::NodeUnpublishVolumeRequest { volume_id: VOLUME.into(), target_path };
        NodeClient::new(self.channel.clone()).node_unpublish_volume(request).await.map(drop)
    }
}

pub fn capability(group: &str) -> csi::VolumeCapability {
    let mount = MountVolume { volume_mount_group: group.into(), ..Default::default() };
    csi::VolumeCapability {
        access_type: Some(AccessType::Mount(mount)),
        access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
    }
}

pub fn assert_clean(scratch: &Scratch) {
    scratch.assert_unmounted();
    for dir in ["pool/shares", "pods"] {
        assert_eq!(fs::read_dir(scratch.path(dir)).unwrap().count(), 0, "{dir}");
    }
}

#[tokio::test]
async fn two_targets_share_files_and_a_third_only_reads() {
    let scratch = Scratch::new();
    let (caller, _stop) = start(&scratch).await;
    caller.create().await.unwrap();
    caller.publish("a").await.unwrap();
    caller.publish("b").await.unwrap();
    let reader = csi::NodePublishVolumeRequest { readonly: true, ..caller.publish_request("c") };
    caller.send(reader.clone()).await.unwrap();
    fs::write(caller.target("a").join("file"), "from a").unwrap();
    fs::write(caller.target("b").join("other"), "from b").unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(fs::read_to_string(caller.target(name).join("file")).unwrap(), "from a", "{name}");
        assert_eq!(fs::read_to_string(caller.target(name).join("other")).unwrap(), "from b", "{name}");
    }
    let refused = fs::write(caller.target("c").join("file"), "from c").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    caller.send(reader).await.unwrap();
    assert_eq!(caller.publish("c").await.unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(caller.delete().await.unwrap_err().code(), Code::FailedPrecondition);
    for name in ["a", "b", "c"] {
        caller.unpublish(name).await.unwrap();
    }
    caller.delete().await.unwrap();
    assert_clean(&scratch);
}

/// Goal: a user who fills the volume with traps loses the volume and nothing else.
#[tokio::test]
async fn links_that_lead_outside_are_not_followed() {
    let scratch = Scratch::new();
    let (caller, _stop) = start(&scratch).await;
    let outside = scratch.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    caller.create().await.unwrap();
    caller.publish("a").await.unwrap();
    let inside = caller.target("a");
    fs::create_dir_all(inside.join("deep/deeper")).unwrap();
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink("../../../../../outside", inside.join("deep/deeper/relative")).unwrap();
    symlink(outside.join("kept"), inside.join("file")).unwrap();
    caller.unpublish("a").await.unwrap();
    caller.delete().await.unwrap();
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    assert_clean(&scratch);
}

#[tokio::test]
async fn a_mount_below_keeps_everything() {
    let scratch = Scratch::new();
    let (caller, _stop) = start(&scratch).await;
    caller.create().await.unwrap();
    let below = caller.data().join("deep/below");
    fs::create_dir_all(&below).unwrap();
    fs::write(caller.data().join("file"), "kept").unwrap();
    mount(&["-t", "tmpfs", "tmpfs", &text(&below)]);
    fs::write(below.join("somebody's"), "kept").unwrap();
    let refused = caller.delete().await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains(&text(&below)), "{refused}");
    assert_eq!(fs::read_to_string(below.join("somebody's")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(caller.data().join("file")).unwrap(), "kept");
    caller.publish("a").await.expect("nothing was begun");
    caller.unpublish("a").await.unwrap();
    assert!(Command::new("umount").arg(&below).status().unwrap().success());
    caller.delete().await.unwrap();
    assert_clean(&scratch);
}

#[tokio::test]
async fn an_inline_volume_goes_with_its_target() {
    let scratch = Scratch::new();
    let (caller, _stop) = start(&scratch).await;
    caller.publish_inline("a").await.unwrap();
    fs::create_dir(caller.target("a").join("dir")).unwrap();
    fs::write(caller.target("a").join("dir/file"), "x").unwrap();
    caller.publish_inline("a").await.unwrap();
    assert!(caller.data().join("dir/file").exists());
    caller.unpublish("a").await.unwrap();
    caller.unpublish("a").await.unwrap();
    assert_clean(&scratch);
}

/// Goal: the directory is whose the parameters say, and the group of the pod can write to what is in it.
#[tokio::test]
async fn owners_and_groups() {
    let scratch = Scratch::new();
    let (caller, _stop) = start(&scratch).await;
    caller.create_with(&[("uid", "1000"), ("gid", "2000"), ("directoryMode", "0750")]).await.unwrap();
    let found = fs::metadata(caller.data()).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1000, 2000, 0o750));
    fs::create_dir(caller.data().join("dir")).unwrap();
    fs::write(caller.data().join("dir/file"), "x").unwrap();
    let request = csi::NodePublishVolumeRequest {
        volume_capability: Some(capability("3000")),
        ..caller.publish_request("a")
    };
    caller.send(request.clone()).await.unwrap();
    for (path, bits) in [("", 0o2770), ("dir", 0o2070), ("dir/file", 0o060)] {
        let found = fs::metadata(caller.target("a").join(path)).unwrap();
        assert_eq!(found.gid(), 3000, "{path}");
        assert_eq!(found.mode() & bits, bits, "{path}");
    }
    assert_eq!(fs::metadata(caller.target("a")).unwrap().uid(), 1000, "the user stays");
    caller.send(request).await.unwrap();
    caller.unpublish("a").await.unwrap();
    caller.delete().await.unwrap();
    assert_clean(&scratch);
}

/// The pool on a filesystem of its own, mounted from inside another directory: mounts name neither path.
#[tokio::test]
async fn a_pool_that_is_a_mount_behind_a_link() {
    let scratch = Scratch::new();
    let real = scratch.path("real");
    fs::create_dir_all(real.join("inner")).unwrap();
    mount(&["-t", "tmpfs", "tmpfs", &text(&real)]);
    fs::create_dir_all(real.join("inner")).unwrap();
    fs::create_dir(scratch.path("seen")).unwrap();
    mount(&["--bind", &text(&real.join("inner")), &text(&scratch.path("seen"))]);
    symlink("seen", scratch.path("pool")).unwrap();
    symlink("pods", scratch.path("linked-pods")).unwrap();
    let (mut caller, _stop) = start(&scratch).await;
    caller.pods = scratch.path("linked-pods");
    caller.create().await.unwrap();
    for _ in 0..2 {
        caller.publish("a").await.unwrap();
    }
    fs::write(caller.target("a").join("file"), "x").unwrap();
    assert!(real.join("inner/shares").join(VOLUME).join("data/file").exists());
    assert_eq!(caller.delete().await.unwrap_err().code(), Code::FailedPrecondition);
    caller.unpublish("a").await.unwrap();
    assert!(!Path::new(&caller.target("a")).exists());
    caller.delete().await.unwrap();
    assert_eq!(fs::read_dir(real.join("inner/shares")).unwrap().count(), 0);
}

fn mount(arguments: &[&str]) {
    assert!(Command::new("mount").args(arguments).status().unwrap().success(), "mount {arguments:?}");
}
