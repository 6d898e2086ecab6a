//! The share driver as a process of its own that is killed at every failpoint in turn.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bowline_proto::csi::v1::NodePublishVolumeRequest;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::crash::{DIRECTORY, HITS_MAX, Process};
use crate::journey::{Answer, Scratch};
use crate::share::{Caller, assert_clean, capability, serve};

const PROGRAM: &str = "share_crash::share_process";

#[derive(Debug, Clone, Copy)]
enum Step {
    Create,
    Publish,
    PublishInline,
    Write,
    Read,
    Unpublish,
    Delete,
}

const CLAIM: [Step; 8] = [
    Step::Create,
    Step::Publish,
    Step::Write,
    Step::Unpublish,
    Step::Publish,
    Step::Read,
    Step::Unpublish,
    Step::Delete,
];

const INLINE: [Step; 5] =
    [Step::PublishInline, Step::Write, Step::PublishInline, Step::Read, Step::Unpublish];

async fn perform(caller: &Caller, step: Step) -> Answer {
    let dir = caller.target("a").join("deep/er");
    match step {
        Step::Create => caller.create().await,
        Step::Publish => {
            let volume_capability = Some(capability("1000"));
            let request = NodePublishVolumeRequest { volume_capability, ..caller.publish_request("a") };
            caller.send(request).await
        }
        Step::PublishInline => caller.publish_inline("a").await,
        Step::Unpublish => caller.unpublish("a").await,
        Step::Delete => caller.delete().await,
        Step::Write => {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("file"), "data").unwrap();
            Ok(())
        }
        Step::Read => {
            assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "data");
            Ok(())
        }
    }
}

/// The new process may be about to finish a deletion itself, and says so until it is done.
async fn repeat(caller: &Caller, step: Step) -> Answer {
    for _ in 0..6_000 {
        match perform(caller, step).await {
            Err(status) if status.code() == Code::Aborted => {}
            answer => return answer,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    perform(caller, step).await
}

/// Not a test of its own: the program that the tests below start. Alone it has nothing to do.
#[tokio::test]
async fn share_process() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    serve(directory, CancellationToken::new()).await;
}

/// Runs a journey whose driver dies at the n-th failpoint. Returns whether it died.
async fn survives(hit: u64, journey: &[Step]) -> bool {
    let scratch = Scratch::new();
    let mut process = Process::start(PROGRAM, &scratch, &hit.to_string()).await;
    let caller = Caller::new(&scratch);
    let mut died = false;
    for step in journey {
        if let Err(status) = perform(&caller, *step).await {
            assert!(!died && process.is_dead(), "hit {hit}: {step:?}: {status}");
            died = true;
            process = Process::start(PROGRAM, &scratch, "off").await;
            repeat(&caller, *step).await.unwrap_or_else(|s| panic!("hit {hit}: {step:?} again: {s}"));
        }
    }
    assert_clean(&scratch);
    died
}

/// Goal: wherever the process is killed, repeating the call completes it, the data stays, and nothing leaks.
/// Method: kill it at each failpoint in turn until a journey passes untouched.
async fn sweep(journey: &[Step]) -> u64 {
    let mut hit = 1;
    while survives(hit, journey).await {
        hit += 1;
        assert!(hit < HITS_MAX);
    }
    hit - 1
}

#[tokio::test]
async fn a_claims_volume() {
    assert!(sweep(&CLAIM).await > 25);
}

#[tokio::test]
async fn an_inline_volume() {
    assert!(sweep(&INLINE).await > 15);
}
