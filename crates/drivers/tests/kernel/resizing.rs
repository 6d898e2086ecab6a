//! Growth and settings when the driver is killed at each of their failpoints.

use std::fs;

use bowline_proto::csi::v1::volume_capability::access_mode::Mode;

use crate::crash::{PROGRAM, Process};
use crate::filesystem;
use crate::journey::{Answer, Caller, Scratch};
use crate::settings::modify;
use crate::sizes::{MIB, expand, node_expand, statfs};

const FAILPOINTS: [&str; 11] = [
    "local.controller-expand.before-image",
    "local.controller-expand.before-record",
    "local.controller-expand.after-record",
    "local.controller-modify.before-record",
    "local.controller-modify.after-record",
    "local.fit.before-refresh",
    "local.fit.after-refresh",
    "local.fit.before-queue",
    "local.fit.after-queue",
    "local.grow.before",
    "local.grow.after",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    SetUp,
    Write,
    Modify,
    /// To so many MiB.
    Expand(i64),
    NodeExpand,
    /// At least so many MiB are there beside what the filesystem keeps for itself, and the data.
    Check(i64),
    TakeDown,
    Delete,
}

/// A mounted ext4 grows only by privilege, so the node's part is left to the next staging there.
const JOURNEY: [Step; 11] = [
    Step::Create,
    Step::SetUp,
    Step::Write,
    Step::Modify,
    Step::Expand(400),
    Step::NodeExpand,
    Step::TakeDown,
    Step::Expand(500),
    Step::SetUp,
    Step::Check(410),
    Step::TakeDown,
];

async fn perform(caller: &Caller, step: Step, fs_type: &str) -> Answer {
    match step {
        Step::Create => caller.create().await,
        Step::SetUp => caller.set_up().await,
        Step::Modify => modify(caller, "discard", "false").await,
        Step::Expand(size) => expand(caller, size * MIB).await.map(drop),
        Step::NodeExpand if fs_type == "ext4" => Ok(()),
        Step::NodeExpand => node_expand(caller, &caller.staging).await.map(drop),
        Step::TakeDown => caller.take_down().await,
        Step::Delete => caller.delete().await,
        Step::Write => {
            caller.write();
            Ok(())
        }
        Step::Check(size) => {
            caller.read();
            let (total, _) = statfs(&caller.target);
            assert!(total > size * MIB, "{fs_type}: {total} bytes");
            Ok(())
        }
    }
}

/// Runs a journey whose driver dies at the failpoint. Returns whether it died.
async fn survives(failpoint: &str, fs_type: &str) -> bool {
    let scratch = Scratch::new();
    let mut process = Process::start(PROGRAM, &scratch, failpoint).await;
    let mut caller = Caller::new(&scratch, filesystem(fs_type), Mode::SingleNodeWriter);
    caller.size = 300 * MIB;
    let mut died = false;
    for step in JOURNEY.into_iter().chain([Step::Delete]) {
        if let Err(status) = perform(&caller, step, fs_type).await {
            assert!(!died && process.is_dead(), "{failpoint} {fs_type}: {step:?}: {status}");
            died = true;
            process = Process::start(PROGRAM, &scratch, "off").await;
            let again = perform(&caller, step, fs_type).await;
            again.unwrap_or_else(|status| panic!("{failpoint} {fs_type}: {step:?} again: {status}"));
        }
    }
    scratch.assert_clean();
    died
}

/// Goal: wherever the process is killed, repeating the call completes it, the data stays, and nothing leaks.
#[tokio::test]
async fn a_crash_while_growing() {
    assert!(fs::exists("/dev/loop-control").unwrap(), "needs loop devices");
    for fs_type in ["ext4", "xfs"] {
        for failpoint in FAILPOINTS {
            assert!(survives(failpoint, fs_type).await, "{fs_type} never passes {failpoint}");
        }
    }
}
