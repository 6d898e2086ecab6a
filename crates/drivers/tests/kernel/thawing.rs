//! A driver that is killed while it makes snapshots: no workload hangs, and nothing half-made stays.

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

use bowline_proto::csi::v1::ListSnapshotsRequest;
use bowline_proto::csi::v1::controller_client::ControllerClient;
use tonic::Status;

use crate::crash::{PROGRAM, Process};
use crate::journey::Scratch;
use crate::together::{delete_group, group, members};
use crate::volume::Volume;
use crate::writer::{Writer, files, of_snapshot, of_volume, whole_files};

/// More failpoints than the journey has.
const HITS_MAX: u64 = 500;
/// Long enough for a write that is not held up.
const MOMENT: Duration = Duration::from_millis(300);

/// Killed at the worst moment, between freezing and thawing; the next start lets the workload go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_frozen() {
    for fs_type in ["ext4", "xfs"] {
        let scratch = Scratch::new();
        let mut process = Process::start(PROGRAM, &scratch, "local.cut.frozen").await;
        let volume = Volume::new(&scratch, "v", fs_type);
        volume.create().await.unwrap();
        volume.up().await.unwrap();
        let writer = Writer::start(files(&volume.target));
        let before = writer.gets_on(5).await;
        volume.snapshot("s").await.unwrap_err();
        assert!(process.is_dead());
        // One that was safe before the freeze may be counted after it.
        tokio::time::sleep(MOMENT).await;
        let stuck = writer.done();
        tokio::time::sleep(MOMENT).await;
        assert_eq!(writer.done(), stuck, "the workload waits for its filesystem");

        let begin = Instant::now();
        let process = Process::start(PROGRAM, &scratch, "off").await;
        writer.gets_on(5).await;
        println!("{fs_type}: went on {:?} after the next driver was started", begin.elapsed());
        assert_eq!(fs::read_dir(scratch.path("pool/snapshots")).unwrap().count(), 0);
        volume.snapshot("s").await.unwrap();
        let written = writer.stop();
        assert!(written > before && whole_files(&volume.target) == written);
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
        volume.delete_snapshot("s").await.unwrap();
        drop(process);
        scratch.assert_clean();
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Cut,
    CutGroup,
    Restore,
    Clone,
    DeleteGroup,
    DeleteSnapshot,
    DeleteRestored,
    DeleteClone,
}

const JOURNEY: [Step; 8] = [
    Step::Cut,
    Step::CutGroup,
    Step::Restore,
    Step::Clone,
    Step::DeleteGroup,
    Step::DeleteSnapshot,
    Step::DeleteRestored,
    Step::DeleteClone,
];

struct Cast {
    volume: Volume,
    other: Volume,
    restored: Volume,
    clone: Volume,
}

impl Cast {
    async fn perform(&self, step: Step) -> Result<(), Status> {
        match step {
            Step::Cut => self.volume.snapshot("s").await.map(drop),
            Step::CutGroup => group(&self.volume, "g", &[&self.volume, &self.other]).await.map(drop),
            Step::Restore => self.restored.create().await,
            Step::Clone => self.clone.create().await,
            Step::DeleteGroup => {
                // A repeat of the call that made it tells its members, unless it is gone already.
                let made = group(&self.volume, "g", &[&self.volume, &self.other]).await?;
                delete_group(&self.volume, "g", members(&made)).await
            }
            Step::DeleteSnapshot => self.volume.delete_snapshot("s").await,
            Step::DeleteRestored => self.restored.delete().await,
            Step::DeleteClone => self.clone.delete().await,
        }
    }
}

async fn listed(volume: &Volume) -> usize {
    let request = ListSnapshotsRequest::default();
    let page = ControllerClient::new(volume.channel()).list_snapshots(request).await.unwrap();
    page.into_inner().entries.len()
}

/// Goal: wherever the process is killed, the workload goes on, repeating the call completes it, copies have the
/// data, and nothing leaks.
/// Method: kill it at each failpoint in turn until a journey passes untouched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_failpoint() {
    let scratch = Scratch::new();
    let mut process = Process::start(PROGRAM, &scratch, "off").await;
    let cast = Cast {
        volume: Volume::new(&scratch, "v", "ext4"),
        other: Volume::new(&scratch, "w", "ext4"),
        restored: Volume::new(&scratch, "r", "ext4").made_from(of_snapshot("s")),
        clone: Volume::new(&scratch, "c", "ext4").made_from(of_volume("v")),
    };
    for volume in [&cast.volume, &cast.other] {
        volume.create().await.unwrap();
        volume.up().await.unwrap();
    }
    // Always the same file: this takes long enough to fill the volume.
    let path = cast.volume.target.join("number");
    let writer = Writer::start(move |number| {
        let mut file = File::create(&path).unwrap();
        file.write_all(&number.to_le_bytes()).unwrap();
        file.sync_all().unwrap();
    });
    writer.gets_on(5).await;
    let mut hit = 0;
    let mut died = true;
    while died {
        hit += 1;
        assert!(hit < HITS_MAX);
        died = false;
        drop(process);
        process = Process::start(PROGRAM, &scratch, &hit.to_string()).await;
        for step in JOURNEY {
            if let Err(status) = cast.perform(step).await {
                assert!(!died && process.is_dead(), "hit {hit}: {step:?}: {status}");
                died = true;
                process = Process::start(PROGRAM, &scratch, "off").await;
                cast.perform(step).await.unwrap_or_else(|s| panic!("hit {hit}: {step:?} again: {s}"));
            }
            writer.gets_on(1).await;
        }
        assert_eq!(listed(&cast.volume).await, 0, "hit {hit}");
        for dir in ["snapshots", "groups"] {
            assert_eq!(fs::read_dir(scratch.path("pool").join(dir)).unwrap().count(), 0, "hit {hit}: {dir}");
        }
    }
    println!("{} failpoints hit", hit - 1);
    assert!(hit > 60, "a journey has more failpoints than {hit}");
    writer.stop();
    drop(process);
    let process = Process::start(PROGRAM, &scratch, "off").await;
    for step in [Step::Cut, Step::Restore] {
        cast.perform(step).await.unwrap();
    }
    cast.restored.up().await.unwrap();
    let number = |volume: &Volume| fs::read(volume.target.join("number")).unwrap();
    assert_eq!(number(&cast.restored), number(&cast.volume));
    for volume in [&cast.volume, &cast.other, &cast.restored] {
        volume.down().await.unwrap();
        volume.delete().await.unwrap();
    }
    cast.perform(Step::DeleteSnapshot).await.unwrap();
    drop(process);
    scratch.assert_clean();
}
