//! Goal: wherever `bowline up` dies, the next start completes the journey with one volume and leaks nothing.
//! Method: end the process with SIGKILL at its n-th failpoint, for each n, until a run passes without dying.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bowline_api::{PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment, build};
use kube::Api;
use support::Cluster;
use support::objects::{create, delete, until_gone, until_phase};

/// Runs at once: the work is mostly waiting for the kernel.
const LANES: u64 = 3;
/// No journey has more effects than this; reaching it means that a start never ends.
const POINTS_MAX: u64 = 1000;

/// The demo's steps, each safe to repeat. An error is a connection lost to the crash.
async fn journey(cluster: &Cluster) -> Result<(), String> {
    let client = cluster.client().await;
    let text = |e: kube::Error| e.to_string();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let done = cluster.scratch.path().join("applied");
    if !done.exists() {
        create(&claims, &build::claim("data").size("64Mi").build()).await.map_err(text)?;
        let pod = build::pod("writer").mount("data", "/data").init_shell("echo kept > /data/hello");
        let pod = pod.shell("exec sleep 3600").grace_seconds(0).build();
        create(&pods, &pod).await.map_err(text)?;
        until_phase(&client, "writer", "Running").await?;
        if cluster.images().len() != 1 {
            return Err(format!("PROV-1: {:?}", cluster.images()));
        }
        std::fs::write(&done, "").expect("mark");
    }
    delete(&pods, "writer").await.map_err(text)?;
    until_gone(&pods, "writer").await?;
    delete(&claims, "data").await.map_err(text)?;
    until_gone(&claims, "data").await?;
    for volume in
        Api::<PersistentVolume>::all(client.clone()).list(&Default::default()).await.map_err(text)?
    {
        let name = volume.metadata.name.unwrap_or_default();
        until_gone::<PersistentVolume>(&Api::all(client.clone()), &name).await?;
    }
    for attachment in
        Api::<VolumeAttachment>::all(client.clone()).list(&Default::default()).await.map_err(text)?
    {
        let name = attachment.metadata.name.unwrap_or_default();
        until_gone::<VolumeAttachment>(&Api::all(client.clone()), &name).await?;
    }
    Ok(())
}

/// The journey, and what the kubelet does when the last object has gone.
async fn there_and_back(cluster: &mut Cluster) -> Result<(), String> {
    journey(cluster).await?;
    cluster.until_pods_left_nothing().await
}

/// One life with a crash at the n-th failpoint, and the next one. False: nothing crashed any more.
async fn crash_at(n: u64) -> bool {
    let point = n.to_string();
    let mut cluster = Cluster::start_with(&[("BOWLINE_FAILPOINTS", point.as_str())]).await;
    let mut crashed = cluster.crashed_at_start;
    while let Err(error) = there_and_back(&mut cluster).await {
        assert!(!crashed && cluster.has_ended().await, "crash at {n}: {error}");
        crashed = true;
        cluster.restart().await;
    }
    assert_eq!(cluster.images().len(), 0, "crash at {n}: PROV-2: a backend volume is left");
    cluster.assert_nothing_mounted();
    crashed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journey_survives_kill_9_at_every_effect() {
    let next = Arc::new(AtomicU64::new(1));
    let calm = Arc::new(AtomicBool::new(false));
    let lane = || {
        let (next, calm) = (next.clone(), calm.clone());
        tokio::spawn(async move {
            while !calm.load(Ordering::SeqCst) {
                let n = next.fetch_add(1, Ordering::SeqCst);
                assert!(n < POINTS_MAX, "the sweep does not end");
                if !crash_at(n).await {
                    calm.store(true, Ordering::SeqCst);
                }
            }
        })
    };
    let lanes: Vec<_> = (0..LANES).map(|_| lane()).collect();
    for lane in lanes {
        lane.await.expect("no lane found a defect");
    }
    let points = next.load(Ordering::SeqCst) - 1;
    println!("died at each of {points} points, and always came through");
    assert!(points > 50, "only {points} points: are the failpoints armed?");
}
