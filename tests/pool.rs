//! `bowline driver local` and `check` as programs on a real pool: records go, volumes stay.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bowline_host::real::{RealConfig, host};
use bowline_machinery::csi::Driver;
use bowline_proto::csi::v1 as csi;
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use bowline_proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};

const NODE: &str = "n1";
const VOLUMES: [&str; 2] = ["pvc-1", "pvc-2"];

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("bowline-test-").tempdir().expect("scratch directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn serve(&self, socket: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(["driver", "local", "--node-id", NODE]);
        command.args(["--endpoint", &self.text(socket), "--pool", &self.text("pool")]);
        command.env("RUST_LOG", "error");
        command
    }

    fn check(&self, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(["driver", "local", "check", "--pool", &self.text("pool")]).args(flags);
        command.output().expect("run bowline")
    }
}

/// A driver process; killed when dropped.
struct Process(Child);

impl Process {
    async fn start(scratch: &Scratch) -> Self {
        let process =
            Self(scratch.serve("csi.sock").stdout(Stdio::null()).spawn().expect("start the driver"));
        for _ in 0..6_000 {
            if tokio::net::UnixStream::connect(scratch.path("csi.sock")).await.is_ok() {
                return process;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody serves the socket");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Caller<'a> {
    driver: Driver,
    scratch: &'a Scratch,
}

impl<'a> Caller<'a> {
    fn new(scratch: &'a Scratch) -> Self {
        let host = host(RealConfig::new(scratch.path("state"))).expect("this machine");
        Self { driver: Driver::at(&host, scratch.path("csi.sock")), scratch }
    }

    fn capability() -> csi::VolumeCapability {
        let mount = MountVolume { fs_type: "ext4".into(), ..Default::default() };
        csi::VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        }
    }

    async fn create(&self, id: &str) {
        let request = csi::CreateVolumeRequest {
            name: id.into(),
            capacity_range: Some(csi::CapacityRange { required_bytes: 16 << 20, limit_bytes: 0 }),
            volume_capabilities: vec![Self::capability()],
            ..Default::default()
        };
        self.driver.controller().create_volume(request).await.expect("create");
    }

    async fn set_up(&self, id: &str) {
        let volume_capability = Some(Self::capability());
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: id.into(),
            node_id: NODE.into(),
            volume_capability: volume_capability.clone(),
            ..Default::default()
        };
        self.driver.controller().controller_publish_volume(request).await.expect("attach");
        fs::create_dir_all(self.scratch.path("staging").join(id)).expect("staging directory");
        let staging_target_path = self.scratch.path("staging").join(id).to_string_lossy().into_owned();
        let request = csi::NodeStageVolumeRequest {
            volume_id: id.into(),
            staging_target_path,
            volume_capability,
            ..Default::default()
        };
        self.driver.node().node_stage_volume(request).await.expect("stage");
    }

    async fn take_down(&self, id: &str) {
        let staging_target_path = self.scratch.path("staging").join(id).to_string_lossy().into_owned();
        let request = csi::NodeUnstageVolumeRequest { volume_id: id.into(), staging_target_path };
        self.driver.node().node_unstage_volume(request).await.expect("unstage");
        let request = csi::ControllerUnpublishVolumeRequest { volume_id: id.into(), ..Default::default() };
        self.driver.controller().controller_unpublish_volume(request).await.expect("detach");
    }

    async fn delete(&self, id: &str) {
        let request = csi::DeleteVolumeRequest { volume_id: id.into(), ..Default::default() };
        self.driver.controller().delete_volume(request).await.expect("delete");
    }
}

/// Exit code and what was printed.
fn told(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn findings(output: &Output) -> Vec<serde_json::Value> {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["findings"].as_array().expect("a list").clone()
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("readable").flatten() {
        match entry.file_type().expect("type").is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Goal: with every record gone the pool is repaired from its images, and each volume has its data.
#[tokio::test]
async fn records_go_and_volumes_stay() {
    let scratch = Scratch::new();
    let process = Process::start(&scratch).await;
    let caller = Caller::new(&scratch);
    for id in VOLUMES {
        caller.create(id).await;
        caller.set_up(id).await;
        fs::write(scratch.path("staging").join(id).join("file"), id).expect("write");
    }
    let beside = told(&scratch.check(&[]));
    assert_eq!(beside.0, Some(0), "{}", beside.1);
    assert!(beside.1.contains("2 volumes") && beside.1.contains("nothing found"), "{}", beside.1);

    let second = scratch.serve("second.sock").output().expect("run bowline");
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && text.contains("served by another process"), "{text}");
    let refused = scratch.check(&["--repair"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));

    for id in VOLUMES {
        caller.take_down(id).await;
    }
    drop(process);
    let records = files_below(&scratch.path("pool")).into_iter().filter(|path| path.ends_with("record.json"));
    records.for_each(|record| fs::remove_file(record).expect("remove"));

    let (code, text) = told(&scratch.check(&[]));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.lines().any(|line| line.contains("error") && line.contains("RecordLost  volume `pvc-2`")),
        "{text}"
    );
    let found = findings(&scratch.check(&["-o", "json"]));
    let reasons: Vec<_> = found.iter().map(|finding| (&finding["reason"], &finding["repair"])).collect();
    assert_eq!(reasons, [(&"RecordLost".into(), &"possible".into()); 2]);
    let (code, text) = told(&scratch.check(&["--repair"]));
    assert!(code == Some(0) && text.matches("repaired").count() == 2, "{text}");
    assert_eq!(told(&scratch.check(&[])).0, Some(0), "nothing is left");

    let _process = Process::start(&scratch).await;
    for id in VOLUMES {
        caller.create(id).await;
        caller.set_up(id).await;
        let data = fs::read_to_string(scratch.path("staging").join(id).join("file")).expect("the data");
        assert_eq!(data, id);
        caller.take_down(id).await;
        caller.delete(id).await;
    }
    assert_eq!(files_below(&scratch.path("pool/volumes")), Vec::<PathBuf>::new());
}

#[test]
fn a_path_that_is_no_pool() {
    let scratch = Scratch::new();
    let output = scratch.check(&[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("no pool"), "{text}");
    assert!(!scratch.path("pool").exists(), "nothing was made");
}
