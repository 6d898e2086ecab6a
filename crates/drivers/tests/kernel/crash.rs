//! The driver as a process of its own that is killed at every failpoint in turn.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bowline_drivers::local::{LocalConfig, NamedNode, run};
use bowline_host::failpoint::ENVIRONMENT;
use bowline_host::real::{RealConfig, host};
use bowline_proto::csi::v1::volume_capability::access_mode::Mode;
use tokio_util::sync::CancellationToken;

use crate::filesystem;
use crate::journey::{Answer, Caller, NODE, Scratch, wait_for};

/// Names the directory of the driver that `driver_process` shall run.
pub const DIRECTORY: &str = "BOWLINE_TEST_DIRECTORY";
pub const PROGRAM: &str = "crash::driver_process";
/// More failpoints than a journey has.
pub const HITS_MAX: u64 = 500;

#[derive(Debug, Clone, Copy)]
enum Step {
    Create,
    Attach,
    Stage,
    Publish,
    Write,
    Unpublish,
    Unstage,
    Detach,
    Read,
    Delete,
}

const JOURNEY: [Step; 16] = [
    Step::Create,
    Step::Attach,
    Step::Stage,
    Step::Publish,
    Step::Write,
    Step::Unpublish,
    Step::Unstage,
    Step::Detach,
    Step::Attach,
    Step::Stage,
    Step::Publish,
    Step::Read,
    Step::Unpublish,
    Step::Unstage,
    Step::Detach,
    Step::Delete,
];

async fn perform(caller: &Caller, step: Step) -> Answer {
    match step {
        Step::Create => caller.create().await,
        Step::Attach => caller.attach().await,
        Step::Stage => caller.stage().await,
        Step::Publish => caller.publish().await,
        Step::Unpublish => caller.unpublish().await,
        Step::Unstage => caller.unstage().await,
        Step::Detach => caller.detach().await,
        Step::Delete => caller.delete().await,
        Step::Write => {
            caller.write();
            Ok(())
        }
        Step::Read => {
            caller.read();
            Ok(())
        }
    }
}

/// A driver process; killed when dropped.
pub struct Process(Child);

impl Process {
    /// `program` is the test that serves when it finds [`DIRECTORY`].
    pub async fn start(program: &str, scratch: &Scratch, failpoints: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", program])
            .env(DIRECTORY, scratch.path(""))
            .env(ENVIRONMENT, failpoints)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Self(child);
        wait_for(&scratch.path("csi.sock")).await;
        process
    }

    pub fn is_dead(&mut self) -> bool {
        // The connection may break a moment before the process can be waited for.
        (0..60_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.0.try_wait().unwrap().is_some()
        })
    }
}

impl Process {
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Not a test of its own: the program that `a_crash_at_any_failpoint` starts. Alone it has nothing to do.
#[tokio::test]
async fn driver_process() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let mut config = LocalConfig::new(directory.join("pool"), NODE.into()).unwrap();
    let other = NamedNode::new("node-2".into()).unwrap();
    config.others = vec![NamedNode { endpoint: Some(directory.join("csi-2.sock")), ..other }];
    config.share_topology(&[("zone".to_owned(), "here".to_owned())].into());
    let host = host(RealConfig::new(directory.join("state"))).unwrap();
    run(host, config, &directory.join("csi.sock"), CancellationToken::new()).await.unwrap();
}

/// Runs a journey whose driver dies at the n-th failpoint. Returns whether it died.
async fn survives(hit: u64) -> bool {
    let scratch = Scratch::new();
    let mut process = Process::start(PROGRAM, &scratch, &hit.to_string()).await;
    let caller = Caller::new(&scratch, filesystem("ext4"), Mode::SingleNodeWriter);
    let mut died = false;
    for step in JOURNEY {
        if let Err(status) = perform(&caller, step).await {
            assert!(!died && process.is_dead(), "hit {hit}: {step:?}: {status}");
            died = true;
            process = Process::start(PROGRAM, &scratch, "off").await;
            perform(&caller, step).await.unwrap_or_else(|s| panic!("hit {hit}: {step:?} again: {s}"));
        }
    }
    scratch.assert_clean();
    died
}

/// Goal: wherever the process is killed, repeating the call completes it, the data stays, and nothing leaks.
/// Method: kill it at each failpoint in turn until a journey passes untouched.
#[tokio::test]
async fn a_crash_at_any_failpoint() {
    assert!(Path::new("/dev/loop-control").exists(), "needs loop devices");
    let mut hit = 1;
    while survives(hit).await {
        hit += 1;
        assert!(hit < HITS_MAX);
    }
    println!("{} failpoints hit", hit - 1);
    assert!(hit > 40, "a journey has more failpoints than {hit}");
}
