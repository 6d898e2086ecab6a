//! Claims, snapshots, resizes, attachments and deletions: all of a phase are asked for at once, and each is timed from its
//! request to the event that says it is done.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, DRIVER, MERGE, NODE, create, get};
use super::cost;
use super::processes::Crew;
use super::watch::Watch;
use crate::apiserver::client::{Client, Kinds};
use crate::args::{Phase, SidecarsArgs};
use crate::figures::Timings;
use crate::report::{Cell, Section};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
/// With default limits upstream's provisioner binds about four claims in a second.
const PATIENCE: Duration = Duration::from_secs(1800);
const LARGE: &str = "32Mi";

/// One request: what it is called when it is done, and how it is made.
struct Request {
    done: String,
    method: Method,
    path: String,
    kinds: Kinds<'static>,
    body: Value,
}

fn post(path: &str, name: &str, body: Value) -> Request {
    let (done, path) = (name.to_owned(), path.to_owned());
    Request { done, method: Method::POST, path, kinds: Kinds::JSON, body }
}

fn name_of(object: &Value) -> Option<String> {
    object["metadata"]["name"].as_str().map(String::from)
}

fn claim(name: &str) -> Value {
    let spec = json!({"storageClassName": "now", "volumeMode": "Block", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "16Mi"}}});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn bound(_: &str, object: &Value) -> Option<String> {
    name_of(object).filter(|_| object["status"]["phase"] == "Bound")
}

/// From now on until one claim is Bound, and it is deleted again.
pub async fn first_claim(cluster: &mut Cluster) -> Result<Duration> {
    let mut watch = Watch::start(cluster.connect().await?, CLAIMS, bound).await?;
    let begun = Instant::now();
    let name = format!("first-{}", jiff::Timestamp::now().as_nanosecond());
    create(&mut cluster.client, CLAIMS, &claim(&name)).await?;
    watch.all(&[(name.clone(), begun)].into(), PATIENCE).await?;
    let took = begun.elapsed();
    cluster.client.send(Method::DELETE, &format!("{CLAIMS}/{name}"), Kinds::JSON, Vec::new()).await?;
    Ok(took)
}

/// Every phase in its order; those that are not asked for are only done where a later one needs them.
pub async fn all(
    cluster: &mut Cluster,
    crew: &mut Crew,
    args: &SidecarsArgs,
    subject: &str,
    section: &mut Section,
    stop: &CancellationToken,
) -> Result<()> {
    for phase in Phase::ALL {
        let prepares = matches!(phase, Phase::Claims | Phase::Delete)
            || (phase == Phase::Attach && args.wants(Phase::Detach));
        if !(args.wants(phase) || prepares) {
            continue;
        }
        if stop.is_cancelled() {
            bail!("interrupted");
        }
        let attaching = matches!(phase, Phase::Attach | Phase::Detach);
        if attaching && !crew.attaches {
            section.put(phase.name(), subject, Cell::Said("not served".to_owned()));
            continue;
        }
        eprintln!("sidecars: {subject}: {}", phase.name());
        let (requests, path, done) = requests(cluster, args, phase).await?;
        let (before, asked) = (crew.usage()?, cluster.audit.requests()?);
        let mut watch = Watch::start(cluster.connect().await?, path, done).await?;
        let count = requests.len();
        let first = Instant::now();
        let begun = send(cluster, requests, args.parallel).await?;
        let times = watch.all(&begun, PATIENCE).await?;
        let wall = first.elapsed();
        let (after, asked) = (crew.usage()?, cluster.audit.requests()? - asked);
        if !args.wants(phase) {
            continue;
        }
        let name = phase.name();
        section.put(name, subject, Cell::PerSecond(count as f64 / wall.as_secs_f64()));
        let times: Timings = times.into_iter().collect();
        section.put(&format!("{name}: each"), subject, Cell::spread(&times));
        let each = format!("{:.1}", asked as f64 / count as f64);
        section.put(&format!("{name}: API requests of the sidecars, each"), subject, Cell::Said(each));
        section.put(
            &format!("{name}: CPU of the sidecars, each"),
            subject,
            Cell::Said(cost(&before, &after, count)),
        );
        if phase == Phase::Claims {
            let what = format!("resident memory, {count} volumes");
            section.put(&what, subject, Cell::kib(after.resident_kib));
        }
    }
    Ok(())
}

type Done = Box<dyn Fn(&str, &Value) -> Option<String> + Send>;

/// What is asked for in a phase, the kind that is watched, and which of its events ends a request.
async fn requests(
    cluster: &mut Cluster,
    args: &SidecarsArgs,
    phase: Phase,
) -> Result<(Vec<Request>, &'static str, Done)> {
    let names = |count: usize| (0..count).map(|number| format!("claim-{number}"));
    let is_bound: Done = Box::new(bound);
    let gone: Done = Box::new(|kind, object| name_of(object).filter(|_| kind == "DELETED"));
    Ok(match phase {
        Phase::Claims => {
            let requests = names(args.claims).map(|name| post(CLAIMS, &name, claim(&name)));
            (requests.collect(), CLAIMS, is_bound)
        }
        Phase::Snapshots => {
            let snapshot = |name: String| {
                let spec =
                    json!({"volumeSnapshotClassName": "now", "source": {"persistentVolumeClaimName": name}});
                let object = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                    "metadata": {"name": name}, "spec": spec});
                post(SNAPSHOTS, &name, object)
            };
            let ready: Done =
                Box::new(|_, object| name_of(object).filter(|_| object["status"]["readyToUse"] == true));
            (names(args.snapshots.min(args.claims)).map(snapshot).collect(), SNAPSHOTS, ready)
        }
        Phase::Resizes => {
            let resize = |name: String| Request {
                method: Method::PATCH,
                path: format!("{CLAIMS}/{name}"),
                kinds: MERGE,
                body: json!({"spec": {"resources": {"requests": {"storage": LARGE}}}}),
                done: name,
            };
            let large: Done = Box::new(|_, object| {
                name_of(object).filter(|_| object["status"]["capacity"]["storage"] == LARGE)
            });
            (names(args.resizes.min(args.claims)).map(resize).collect(), CLAIMS, large)
        }
        Phase::Attach => {
            let attach = |volume: &Value| {
                let volume = name_of(volume).unwrap_or_default();
                let name = format!("csi-{volume}");
                let spec =
                    json!({"attacher": DRIVER, "nodeName": NODE, "source": {"persistentVolumeName": volume}});
                post(ATTACHMENTS, &name, json!({"metadata": {"name": name}, "spec": spec}))
            };
            let attached: Done =
                Box::new(|_, object| name_of(object).filter(|_| object["status"]["attached"] == true));
            let volumes = get(&mut cluster.client, VOLUMES).await?;
            let volumes = volumes["items"].as_array().map_or(&[][..], Vec::as_slice);
            (volumes.iter().map(attach).collect(), ATTACHMENTS, attached)
        }
        Phase::Detach => (deletions(cluster, ATTACHMENTS, |_| None).await?, ATTACHMENTS, gone),
        Phase::Delete => {
            for snapshot in
                get(&mut cluster.client, SNAPSHOTS).await?["items"].as_array().into_iter().flatten()
            {
                let path = format!("{SNAPSHOTS}/{}", name_of(snapshot).unwrap_or_default());
                cluster.client.send(Method::DELETE, &path, Kinds::JSON, Vec::new()).await?;
            }
            // A claim is gone at once; its volume when the driver has deleted it.
            let volume = |claim: &Value| claim["spec"]["volumeName"].as_str().map(String::from);
            (deletions(cluster, CLAIMS, volume).await?, VOLUMES, gone)
        }
    })
}

/// Deletions of all objects of a kind; `done` names the object whose end is waited for, if that is another one.
async fn deletions(
    cluster: &mut Cluster,
    path: &str,
    done: impl Fn(&Value) -> Option<String>,
) -> Result<Vec<Request>> {
    let list = get(&mut cluster.client, path).await?;
    let deletion = |object: &Value| {
        let name = name_of(object)?;
        let (method, path, kinds) = (Method::DELETE, format!("{path}/{name}"), Kinds::JSON);
        Some(Request { done: done(object).unwrap_or(name), method, path, kinds, body: Value::Null })
    };
    Ok(list["items"].as_array().into_iter().flatten().filter_map(deletion).collect())
}

/// Sends all of them, a few at a time; when each was begun.
async fn send(
    cluster: &Cluster,
    requests: Vec<Request>,
    parallel: usize,
) -> Result<BTreeMap<String, Instant>> {
    let client = cluster.connect().await?;
    let mut sent = futures::stream::iter(requests.into_iter().map(|request| one(client.clone(), request)))
        .buffer_unordered(parallel);
    let mut begun = BTreeMap::new();
    while let Some(done) = sent.next().await {
        let (name, at) = done?;
        begun.insert(name, at);
    }
    Ok(begun)
}

async fn one(mut client: Client, request: Request) -> Result<(String, Instant)> {
    let body = match request.body {
        Value::Null => Vec::new(),
        body => serde_json::to_vec(&body)?,
    };
    let begun = Instant::now();
    client.send(request.method, &request.path, request.kinds, body).await?;
    Ok((request.done, begun))
}
