//! Against our own local driver, in this process, on the real kernel.

use std::path::PathBuf;
use std::time::Duration;

use bowline_drivers::local::{LocalConfig, run};
use bowline_host::Host;
use bowline_host::real::{self, RealConfig};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::log::Rpc;
use super::rounds::Plan;
use super::subject::Subject;
use super::{many, rounds, tools};
use crate::args::Fs;
use crate::scratch::{Scratch, attached_below};

/// A driver, and the directory that goes with it.
struct World {
    host: Host,
    scratch: Scratch,
    dir: PathBuf,
    subject: Subject,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl World {
    async fn start(max_volumes: u32) -> Self {
        let host = real::host(RealConfig::new("/nonexistent")).unwrap();
        let scratch = Scratch::make(&host).unwrap();
        let dir = scratch.dir("test").unwrap();
        let config = LocalConfig::new(dir.join("pool"), "n1".into()).unwrap();
        let config = LocalConfig { max_volumes, ..config };
        let (socket, stop) = (dir.join("csi.sock"), CancellationToken::new());
        let serving = tokio::spawn({
            let (host, socket, stop) = (host.clone(), socket.clone(), stop.clone());
            async move { run(host, config, &socket, stop).await.unwrap() }
        });
        let serves = async {
            while UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), serves).await.unwrap();
        let subject = Subject::meet(&host, &socket, Some("ours"), None).await.unwrap();
        Self { host, scratch, dir, subject, stop, serving }
    }

    async fn rounds(
        &self,
        volumes: usize,
        fs: Fs,
        stop: &CancellationToken,
    ) -> anyhow::Result<rounds::Rounds> {
        let plan = Plan { volumes, parallel: 4, fs };
        rounds::measure(&self.subject, &self.dir, plan, stop).await
    }

    fn volumes(&self) -> usize {
        std::fs::read_dir(self.dir.join("pool/volumes")).unwrap().count()
    }

    /// Nothing may be left even before the directory goes.
    async fn end(self) {
        assert_eq!(self.volumes(), 0, "volumes");
        assert_eq!(attached_below(&self.dir).unwrap(), Vec::<PathBuf>::new(), "loop devices");
        let mounts = self.host.kernel.mounts().await.unwrap();
        let left: Vec<_> = mounts.iter().filter(|mount| mount.target.starts_with(&self.dir)).collect();
        assert!(left.is_empty(), "{left:?}");
        drop(self.subject);
        self.stop.cancel();
        self.serving.await.unwrap();
        self.scratch.clean().await.unwrap();
        assert!(!self.dir.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_makes_each_call_once() {
    let world = World::start(0).await;
    for fs in [Fs::Ext4, Fs::None] {
        let measured = world.rounds(6, fs, &CancellationToken::new()).await.unwrap();
        assert_eq!(measured.left, Vec::<String>::new());
        assert_eq!(measured.timings.len(), 8, "{:?}", measured.timings.keys());
        for (rpc, timings) in &measured.timings {
            let ends = (timings.count(), timings.failures());
            assert_eq!(ends, (6, 0), "{rpc:?} {:?}", timings.first_failure());
        }
        assert!(measured.per_second() > 0.0);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_is_counted_and_its_volume_goes() {
    // Of those under way together, one at a time may be published.
    let world = World::start(1).await;
    let measured = world.rounds(8, Fs::None, &CancellationToken::new()).await.unwrap();
    let publish = &measured.timings[&Rpc::ControllerPublishVolume];
    assert!(publish.failures() > 0 && publish.count() > 0);
    assert_eq!(publish.failures() + publish.count(), 8);
    assert!(publish.first_failure().unwrap().starts_with("ResourceExhausted"));
    assert_eq!(measured.timings[&Rpc::DeleteVolume].count(), 8);
    assert_eq!(measured.left, Vec::<String>::new());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_interruption_nothing_stays() {
    let world = World::start(0).await;
    let stop = CancellationToken::new();
    let interrupt = async {
        while attached_below(&world.dir).unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.cancel();
    };
    let (measured, ()) = tokio::join!(world.rounds(500, Fs::Ext4, &stop), interrupt);
    assert!(measured.unwrap_err().to_string().contains("interrupted"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_alone_leave_nothing_either() {
    let world = World::start(0).await;
    for fs in [Fs::Ext4, Fs::Xfs, Fs::None] {
        let plan = Plan { volumes: 3, parallel: 2, fs };
        let measured = tools::measure(&world.host, &world.dir, plan, &world.stop).await.unwrap();
        assert_eq!(measured.left, Vec::<String>::new(), "{fs:?}");
        assert_eq!(measured.timings[&Rpc::NodeStageVolume].count(), 3, "{fs:?}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_walked_and_the_middle_one_is_asked_for() {
    let world = World::start(0).await;
    let never = CancellationToken::new();
    let measured = many::measure(&world.subject, &world.dir, (1_002, 8), &never).await.unwrap();
    let pages = measured.pages.unwrap();
    assert_eq!((pages.entries, pages.first.count()), (1_002, many::ASKED));
    assert_eq!(pages.middle.unwrap().count(), many::ASKED);
    assert_eq!(world.subject.pid, Some(std::process::id()), "who listens");
    assert!(measured.resident.unwrap().now_kib > 0);
    world.end().await;
}
