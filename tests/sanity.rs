//! Upstream's csi-sanity against `bowline driver …` over its socket. A spec that fails fails the test; so does
//! one that is skipped, unless the run says why it may be.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::ginkgo::{Report, Skips};
use support::peers::peer;
use support::{PATIENCE, machine};

/// Small, so that copies and filesystems take no time; both are multiples of the driver's unit.
const SIZE: u64 = 16 << 20;
const EXPANDED_SIZE: u64 = 32 << 20;
/// Low, so that the spec that exceeds the limit needs few volumes.
const ATTACH_LIMIT: &str = "--max-volumes-per-node=3";
/// One spec polls for ever if a snapshot never becomes ready.
const SUITE_TIMEOUT: &str = "5m";
/// Lines of the driver's log that a failure shows.
const LOG_LINES: usize = 60;
const MUTABLE_PARAMETERS: &str = "discard: \"true\"\nreadAheadKiB: \"256\"\n";

/// One run of the suite.
struct Run {
    /// Subcommand of `bowline driver`.
    driver: &'static str,
    /// `mount` or `block`.
    access: &'static str,
    flags: &'static [&'static str],
    skips: Skips,
}

/// What csi-sanity says of specs that belong to CSI 1.13, which the driver speaks only when told to.
const NEWER_THAN_1_12: Skips = Skips::For(&[
    "ControllerGetVolumeHealth not supported",
    "ControllerListVolumeHealth not supported",
    "NodeGetVolumeHealth not supported",
    "NodeGetStorageHealth not supported",
    "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
]);

#[test]
fn local_mount() {
    let flags = &[ATTACH_LIMIT, "--csi-1-13"];
    Run { driver: "local", access: "mount", flags, skips: Skips::Never }.judge();
}

#[test]
fn local_block() {
    let flags = &[ATTACH_LIMIT, "--csi-1-13"];
    Run { driver: "local", access: "block", flags, skips: Skips::Never }.judge();
}

/// The default: nothing but what is newer may be skipped.
#[test]
fn local_mount_in_csi_1_12() {
    let flags = &[ATTACH_LIMIT];
    Run { driver: "local", access: "mount", flags, skips: NEWER_THAN_1_12 }.judge();
}

/// Shared directories have neither devices nor snapshots, so much does not apply.
#[test]
fn share_mount() {
    Run { driver: "share", access: "mount", flags: &[], skips: Skips::Any }.judge();
}

impl Run {
    fn judge(&self) {
        let running = Running::start(self);
        let report = running.examine(self.access);
        // Straight to stderr: the harness would keep the line of a run that succeeds to itself.
        let name = format!("{} {} {}", self.driver, self.access, self.flags.join(" "));
        let _ = writeln!(std::io::stderr(), "csi-sanity, {}: {}", name.trim(), report.summary());
        let complaints = report.complaints(&self.skips);
        assert!(complaints.is_empty(), "{complaints}\nthe driver's last words:\n{}", running.log());
        running.assert_nothing_left();
    }
}

/// A driver in a scratch directory of its own.
struct Running {
    scratch: tempfile::TempDir,
    driver: Child,
}

impl Running {
    fn start(run: &Run) -> Self {
        let scratch =
            tempfile::Builder::new().prefix("bowline-sanity-").tempdir().expect("scratch directory");
        let log = std::fs::File::create(scratch.path().join("log")).expect("log file");
        let driver = Command::new(env!("CARGO_BIN_EXE_bowline"))
            .args(["driver", run.driver, "--node-id", "sanity-node"])
            .args(["--endpoint".as_ref(), socket(scratch.path()).as_os_str()])
            .args(["--pool".as_ref(), scratch.path().join("pool").as_os_str()])
            .args(run.flags)
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start the driver");
        let mut running = Self { scratch, driver };
        running.wait_for_socket();
        running
    }

    fn wait_for_socket(&mut self) {
        let patience = Instant::now() + PATIENCE;
        while !socket(self.scratch.path()).exists() {
            let ended = self.driver.try_wait().expect("state of the driver");
            assert!(ended.is_none(), "the driver ended with {ended:?}:\n{}", self.log());
            assert!(Instant::now() < patience, "no socket in time:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn examine(&self, access: &str) -> Report {
        let at = |name: &str| self.scratch.path().join(name);
        std::fs::write(at("mutable.yaml"), MUTABLE_PARAMETERS).expect("parameter file");
        let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let output = Command::new(peer("csi-sanity"))
            .arg(option("csi.endpoint", &socket(self.scratch.path())))
            .arg(option("csi.mountdir", &at("mount")))
            .arg(option("csi.stagingdir", &at("staging")))
            .arg(option("csi.testvolumemutableparameters", &at("mutable.yaml")))
            .arg(option("ginkgo.json-report", &at("report.json")))
            .arg(format!("--csi.testvolumeaccesstype={access}"))
            .arg(format!("--csi.testvolumesize={SIZE}"))
            .arg(format!("--csi.testvolumeexpandsize={EXPANDED_SIZE}"))
            .arg("--csi.testnodevolumeattachlimit")
            .arg(format!("--ginkgo.timeout={SUITE_TIMEOUT}"))
            .arg("--ginkgo.no-color")
            .output()
            .expect("run csi-sanity");
        let said = String::from_utf8_lossy(&output.stdout);
        let json = std::fs::read_to_string(at("report.json"));
        let json =
            json.unwrap_or_else(|error| panic!("csi-sanity left no report ({error}) and said:\n{said}"));
        Report::read(&json).unwrap_or_else(|error| panic!("{error}; csi-sanity said:\n{said}"))
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.scratch.path().join("log")).expect("the driver's log");
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn assert_nothing_left(&self) {
        let root = self.scratch.path();
        assert_eq!(machine::mounts_below(root), Vec::<String>::new(), "mounts left behind");
        assert_eq!(machine::loops_below(root), Vec::<String>::new(), "loop devices left behind");
    }
}

impl Drop for Running {
    /// A failed run must not leave mounts that keep the scratch directory from going.
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        machine::release_below(self.scratch.path());
    }
}

fn socket(scratch: &Path) -> PathBuf {
    scratch.join("csi.sock")
}

/// The judgement itself: what must not pass does not.
#[test]
fn reports_judged() {
    let spec = |state: &str, why: &str| {
        format!(
            r#"{{"LeafNodeType": "It", "LeafNodeText": "works", "ContainerHierarchyTexts": ["Node"], "State": "{state}",
            "Failure": {{"Message": "{why}", "Location": {{"FileName": "/a/node.go", "LineNumber": 7}}}}}}"#
        )
    };
    let complaints = |specs: &[(&str, &str)], skips: Skips| {
        let specs: Vec<String> = specs.iter().map(|(state, why)| spec(state, why)).collect();
        let json = format!(r#"[{{"RunTime": 1500000000, "SpecReports": [{}]}}]"#, specs.join(","));
        Report::read(&json).expect("a report").complaints(&skips)
    };
    let ok = ("passed", "");
    let table: [(&str, &[(&str, &str)], Skips, &str); 12] = [
        ("all passed", &[ok], Skips::Never, ""),
        ("nothing ran", &[], Skips::Any, "no spec passed"),
        ("one failed", &[ok, ("failed", "boom")], Skips::Any, "failed: boom\n  Node > works (node.go:7)"),
        ("one panicked", &[ok, ("panicked", "boom")], Skips::Any, "failed: "),
        ("one timed out", &[ok, ("timedout", "")], Skips::Any, "failed: "),
        ("a state of the future", &[ok, ("puzzled", "")], Skips::Any, "failed: "),
        (
            "skipped",
            &[ok, ("skipped", "later")],
            Skips::Never,
            "skipped without permission: later\n  Node > works",
        ),
        ("skipped, any", &[ok, ("skipped", "later")], Skips::Any, ""),
        ("skipped for it", &[ok, ("skipped", "later")], Skips::For(&["later"]), ""),
        (
            "skipped for another",
            &[ok, ("skipped", "now")],
            Skips::For(&["later"]),
            "skipped without permission",
        ),
        ("permission not used", &[ok], Skips::For(&["later"]), "no spec was skipped for `later`"),
        ("two pending", &[ok, ("pending", ""), ("pending", "")], Skips::Never, "pending, more than"),
    ];
    for (name, specs, skips, expected) in table {
        let complaints = complaints(specs, skips);
        assert_eq!(complaints.is_empty(), expected.is_empty(), "{name}: {complaints}");
        assert!(complaints.contains(expected), "{name}: {complaints}");
    }
    assert_eq!(complaints(&[ok, ("pending", "")], Skips::Never), "", "upstream's one pending spec");
    assert!(Report::read("[]").is_err() && Report::read("{").is_err(), "no report is no success");
}
