//! Goal: wherever `bowline up` dies, the next start completes the journey with one volume and leaks nothing.
//! Method: list the failpoints that a calm journey passes, then end the process with SIGKILL at each of them. A journey
//! with one volume is killed at every hit; one with everything that a pod can have, at each name the first does not have.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use bowline_api::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, VolumeAttachment, build, volume,
};
use bowline_host::failpoint::{ENVIRONMENT, LINE};
use kube::{Api, Client};
use serde_json::{Value, json};
use support::Cluster;
use support::objects::{create, delete, until_gone, until_phase};

/// Runs at once: the work is mostly waiting for the kernel.
const LANES: usize = 4;
/// Says how far it is after so many runs.
const PROGRESS: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journey {
    /// A pod with an init container and one volume.
    Basic,
    /// A pod with a grace period that its container uses up, an init container, projected volumes of every kind, a group,
    /// and a filesystem, a shared directory and a device.
    Full,
}

impl Journey {
    fn claims(self) -> Vec<PersistentVolumeClaim> {
        let data = build::claim("data").size("64Mi").build();
        let shared =
            build::claim("shared").class("share").access_mode(volume::READ_WRITE_MANY).size("64Mi").build();
        let raw = build::claim("raw").block().size("64Mi").build();
        match self {
            Self::Basic => vec![data],
            Self::Full => vec![data, shared, raw],
        }
    }

    fn pod(self) -> Pod {
        let pod = build::pod("writer").mount("data", "/data").init_shell("echo kept > /data/hello");
        if self == Self::Basic {
            return pod.shell("exec sleep 3600").grace_seconds(0).build();
        }
        let pod = pod.mount("shared", "/shared").device("raw", "/dev/raw");
        let script = "trap '' TERM; echo shared > /shared/hello; while :; do sleep 1; done";
        let mut pod = pod.shell(script).grace_seconds(1).build();
        let spec = pod.spec.as_mut().expect("spec");
        spec.security_context = from_json(json!({"fsGroup": 2000}));
        let sources = json!([
            {"secret": {"name": "secret"}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]);
        let volumes: Vec<_> = from_json(json!([
            {"name": "map", "configMap": {"name": "map"}},
            {"name": "all", "projected": {"sources": sources}},
            {"name": "cache", "emptyDir": {}},
        ]));
        spec.volumes.get_or_insert_default().extend(volumes);
        let mounts: Vec<_> = from_json(json!([
            {"name": "map", "mountPath": "/map"},
            {"name": "all", "mountPath": "/all"},
            {"name": "cache", "mountPath": "/cache"},
        ]));
        spec.containers[0].volume_mounts.get_or_insert_default().extend(mounts);
        pod
    }
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("valid")
}

/// The demo's steps, each safe to repeat. An error is a connection lost to the crash.
async fn there_and_back(cluster: &mut Cluster, journey: Journey) -> Result<(), String> {
    let client = cluster.client().await;
    let text = |e: kube::Error| e.to_string();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let done = cluster.scratch.path().join("applied");
    if !done.exists() {
        contents(&client).await.map_err(text)?;
        for claim in journey.claims() {
            create(&claims, &claim).await.map_err(text)?;
        }
        create(&pods, &journey.pod()).await.map_err(text)?;
        until_phase(&client, "writer", "Running").await?;
        let made = cluster.images().len() + cluster.shares().len();
        if made != journey.claims().len() {
            return Err(format!("PROV-1: {:?} {:?}", cluster.images(), cluster.shares()));
        }
        std::fs::write(&done, "").expect("mark");
    }
    delete(&pods, "writer").await.map_err(text)?;
    until_gone(&pods, "writer").await?;
    for claim in journey.claims() {
        let name = claim.metadata.name.unwrap_or_default();
        delete(&claims, &name).await.map_err(text)?;
        until_gone(&claims, &name).await?;
    }
    until_all_gone::<PersistentVolume>(&client).await?;
    until_all_gone::<VolumeAttachment>(&client).await?;
    // What the kubelet does when the last object has gone.
    cluster.until_pods_left_nothing().await
}

async fn contents(client: &Client) -> kube::Result<()> {
    let map: ConfigMap = from_json(json!({"metadata": {"name": "map"}, "data": {"colour": "red"}}));
    create(&Api::namespaced(client.clone(), "default"), &map).await?;
    let secret: Secret = from_json(json!({"metadata": {"name": "secret"}, "stringData": {"password": "x"}}));
    create(&Api::namespaced(client.clone(), "default"), &secret).await
}

async fn until_all_gone<K>(client: &Client) -> Result<(), String>
where
    K: bowline_machinery::Object + kube::Resource<Scope = k8s_openapi::ClusterResourceScope>,
{
    let api: Api<K> = Api::all(client.clone());
    for object in api.list(&Default::default()).await.map_err(|e| e.to_string())? {
        until_gone(&api, object.meta().name.as_deref().unwrap_or_default()).await?;
    }
    Ok(())
}

/// The points in a log, in the order in which they were passed.
fn points(log: &str) -> Vec<String> {
    let point = |line: &str| {
        let mut words = line.strip_prefix(LINE)?.split_whitespace();
        words.next()?.parse::<u64>().ok()?;
        words.next().map(str::to_owned)
    };
    log.lines().filter_map(point).collect()
}

/// Every point of a journey that nothing interrupts.
async fn listed(journey: Journey) -> Vec<String> {
    let mut cluster = Cluster::start_with(&[(ENVIRONMENT, "LIST")]).await;
    there_and_back(&mut cluster, journey).await.expect("a calm journey");
    points(&cluster.log())
}

/// One life that ends at a point, and the next one. Returns the name of the point, if it was reached.
async fn crash_at(journey: Journey, point: &str) -> Option<String> {
    let mut cluster = Cluster::start_with(&[(ENVIRONMENT, point)]).await;
    let died_at = |log: &str| points(log).pop().expect("who dies says where");
    let mut died = cluster.crashed_at_start.as_deref().map(died_at);
    while let Err(error) = there_and_back(&mut cluster, journey).await {
        let ended = died.is_none() && cluster.has_ended().await;
        let name = died.as_deref().unwrap_or("no point");
        assert!(ended, "{journey:?} journey, crash at {point} ({name}): {error}");
        died = Some(died_at(&cluster.log()));
        cluster.restart().await;
    }
    let name = died.as_deref().unwrap_or("no point");
    let left = (cluster.images(), cluster.shares());
    assert_eq!(left, (vec![], vec![]), "crash at {point} ({name}): PROV-2: a backend volume is left");
    cluster.assert_nothing_mounted();
    died
}

/// How often the process died at each point.
type Deaths = BTreeMap<String, u32>;

/// Dies at each of these points, several at once.
async fn sweep(work: impl Iterator<Item = (Journey, String)>) -> Deaths {
    let work: Arc<Mutex<VecDeque<_>>> = Arc::new(Mutex::new(work.collect()));
    let deaths: Arc<Mutex<Deaths>> = Arc::default();
    let started = std::time::Instant::now();
    let lane = || {
        let (work, deaths) = (work.clone(), deaths.clone());
        tokio::spawn(async move {
            loop {
                let (next, left) = {
                    let mut work = work.lock().expect("work");
                    (work.pop_front(), work.len())
                };
                let Some((journey, point)) = next else { return };
                if left % PROGRESS == 0 {
                    println!("{left} runs left after {} s", started.elapsed().as_secs());
                }
                match crash_at(journey, &point).await {
                    Some(name) => *deaths.lock().expect("names").entry(name).or_default() += 1,
                    None => println!("not reached: {point} of the {journey:?} journey"),
                }
            }
        })
    };
    let lanes: Vec<_> = (0..LANES).map(|_| lane()).collect();
    for lane in lanes {
        lane.await.expect("no lane found a defect");
    }
    let deaths = deaths.lock().expect("names");
    deaths.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journeys_survive_kill_9_at_every_point() {
    let (basic, full) = tokio::join!(listed(Journey::Basic), listed(Journey::Full));
    let known: BTreeSet<&String> = basic.iter().collect();
    let others: BTreeSet<&String> = full.iter().filter(|name| !known.contains(name)).collect();
    println!(
        "{} hits of {} points, and {} points of the full journey",
        basic.len(),
        known.len(),
        others.len()
    );
    let every_hit = (1..=basic.len()).map(|hit| (Journey::Basic, format!("all:{hit}")));
    let every_name = others.iter().map(|name| (Journey::Full, name.to_string()));
    let mut deaths = sweep(every_name.chain(every_hit)).await;
    // Roles run side by side, so the n-th hit is not the same point in each run: those that no run died at, by name.
    let missed: Vec<_> = known.iter().filter(|name| !deaths.contains_key(**name)).collect();
    println!("{} points by name", missed.len());
    deaths.extend(sweep(missed.into_iter().map(|name| (Journey::Basic, name.to_string()))).await);
    for (name, times) in &deaths {
        println!("{times:>4} {name}");
    }
    for wanted in [
        "disk.replace.synced:vol_data.json",
        "kubelet.clean-mount.record",
        "kubelet.remove-directory.volumes",
    ] {
        assert!(deaths.contains_key(wanted), "{wanted} is no point of any journey");
    }
    let (reached, listed) = (deaths.len(), known.len() + others.len());
    // A point behind a race or a retry is not passed in every run.
    assert!(reached * 20 >= listed * 19, "died at only {reached} of {listed} points");
}
