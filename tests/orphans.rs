//! Volumes without claim and PersistentVolume, as a crash of the provisioner leaves them, at the start of `bowline up`.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline_api::Event;
use bowline_host::real::{RealConfig, host};
use bowline_machinery::csi::Driver;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use kube::Api;
use kube::api::ListParams;

use support::{Cluster, PATIENCE};

const EMPTY: &str = "pvc-353aaccf-ef5f-4540-a144-9ffc3410a96d";
const WITH_DATA: &str = "pvc-efdf8a59-2dc3-4858-80f7-364309c40e4e";
const BY_HAND: &str = "archive";

/// Creates volumes in the pool of a stopped installation, through a driver of its own.
async fn create_in_pool(cluster: &Cluster, names: &[&str]) {
    let socket = cluster.scratch.path().join("own.sock");
    let mut driver = Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["driver", "local", "--node-id", "test-node", "--endpoint"])
        .arg(&socket)
        .arg("--pool")
        .arg(cluster.data_dir().join("pool"))
        .stdout(Stdio::null())
        .spawn()
        .expect("start the driver");
    while !socket.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let machine = host(RealConfig::new(cluster.scratch.path().join("state"))).expect("this machine");
    for name in names {
        let capability = csi::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        };
        let request = csi::CreateVolumeRequest {
            name: (*name).into(),
            volume_capabilities: vec![capability],
            ..Default::default()
        };
        Driver::at(&machine, &socket).controller().create_volume(request).await.expect("create");
    }
    driver.kill().expect("kill the driver");
    driver.wait().expect("end of the driver");
}

async fn until_gone(path: PathBuf) {
    let gone = async {
        while path.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{} stays", path.display()));
}

/// Goal: a start removes the volume that holds nothing, keeps every byte of data, and says so at the Node.
#[tokio::test]
async fn a_start_removes_empty_orphans_and_reports_all() {
    let mut cluster = Cluster::start().await;
    assert!(cluster.interrupt().await);
    create_in_pool(&cluster, &[EMPTY, WITH_DATA, BY_HAND]).await;
    let volumes = cluster.data_dir().join("pool/volumes");
    let image = volumes.join(WITH_DATA).join("disk.img");
    OpenOptions::new().write(true).open(&image).expect("image").write_all(b"data").expect("write");

    cluster.restart().await;
    until_gone(volumes.join(EMPTY)).await;
    let client = cluster.client().await;
    let events: Api<Event> = Api::all(client);
    let reported = async {
        loop {
            let all = events.list(&ListParams::default()).await.expect("events");
            let ours = all.items.into_iter().filter(|event| event.reason.as_deref() == Some("OrphanVolume"));
            let messages: Vec<String> = ours.filter_map(|event| event.message).collect();
            if messages.len() == 2 {
                return messages;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let messages = tokio::time::timeout(PATIENCE, reported).await.expect("an event for each orphan");
    let about = |name: &str| messages.iter().find(|message| message.contains(name)).expect(name);
    assert!(about(EMPTY).contains("is removed"), "{messages:?}");
    assert!(about(WITH_DATA).contains("stays"), "{messages:?}");
    assert!(fs::read(&image).expect("image").starts_with(b"data"));
    assert!(volumes.join(BY_HAND).exists(), "not the provisioner's");
}
