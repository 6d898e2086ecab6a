//! How fast lists, gets and watches are: `reads [PODS] [WATCHERS]`, without sockets.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline_apiserver::kinds::register::{register, register_admission};
use bowline_apiserver::{Registry, Server, Store};
use bowline_host::{Clock, Random};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt, BodyStream, Full};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Now;

impl Clock for Now {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

struct Mixed(AtomicU64);

impl Random for Mixed {
    fn next_u64(&self) -> u64 {
        let n = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n ^ (n >> 27)
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";
const BINARY: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn pod(name: &str) -> String {
    let env: Vec<String> = (0..8)
        .map(|n| format!(r#"{{"name":"SETTING_{n}","value":"some value of moderate length {n}"}}"#))
        .collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"web","tier":"front","shard":"{}"}},"annotations":{{"note":"{}"}}}},"spec":{{"nodeName":"node-{}","containers":[{{"name":"main","image":"registry.example/app:1.2.3","env":[{}],"ports":[{{"containerPort":8080}}],"resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}}}},"volumeMounts":[{{"name":"data","mountPath":"/data"}}]}}],"volumes":[{{"name":"data","persistentVolumeClaim":{{"claimName":"{name}"}}}}]}}}}"#,
        name.len() % 7,
        "x".repeat(200),
        name.len() % 5,
        env.join(","),
    )
}

async fn send(
    server: &Server,
    method: http::Method,
    path: &str,
    accept: &str,
    body: String,
) -> Result<Bytes, Failure> {
    let request = http::Request::builder().method(method).uri(path).header("accept", accept);
    let response = server.handle(request.body(Full::new(Bytes::from(body)))?).await;
    let good = response.status().is_success();
    let body = response.into_body().collect().await?.to_bytes();
    if good { Ok(body) } else { Err(String::from_utf8_lossy(&body).into_owned().into()) }
}

async fn get(server: &Server, path: &str, accept: &str) -> Result<Bytes, Failure> {
    send(server, http::Method::GET, path, accept, String::new()).await
}

/// The best of a few runs, and the size of the answer.
async fn list(server: &Server, name: &str, path: &str, accept: &str) -> Result<(), Failure> {
    let (mut best, mut first, mut size) = (Duration::MAX, None, 0);
    for _ in 0..5 {
        let started = Instant::now();
        size = get(server, path, accept).await?.len();
        let took = started.elapsed();
        first.get_or_insert(took);
        best = best.min(took);
    }
    let first = first.unwrap_or_default();
    println!("list {name:<16} first {first:>10.1?}  best {best:>10.1?}  {:>7} KiB", size >> 10);
    Ok(())
}

async fn watchers(server: &Server, count: usize, accept: &'static str) -> Result<(), Failure> {
    const EVENTS: usize = 50;
    let mut tasks = Vec::new();
    let (ready, mut all_ready) = tokio::sync::mpsc::channel(count);
    for _ in 0..count {
        let request =
            http::Request::get(format!("{PODS}?watch=1&resourceVersion={}", server.store().version()));
        let response = server.handle(request.header("accept", accept).body(Full::new(Bytes::new()))?).await;
        let ready = ready.clone();
        tasks.push(tokio::spawn(async move {
            let mut stream = BodyStream::new(response.into_body());
            let _ = ready.send(()).await;
            let mut arrived = Vec::new();
            while arrived.len() < EVENTS {
                if stream.next().await.is_none() {
                    break;
                }
                arrived.push(Instant::now());
            }
            arrived
        }));
    }
    for _ in 0..count {
        all_ready.recv().await;
    }
    let mut written = Vec::new();
    for event in 0..EVENTS {
        written.push(Instant::now());
        let patch = format!(r#"{{"metadata":{{"annotations":{{"event":"{accept}{event}"}}}}}}"#);
        let request = http::Request::patch(format!("{PODS}/pod-0"))
            .header("content-type", "application/merge-patch+json")
            .body(Full::new(Bytes::from(patch)))?;
        server.handle(request).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut late: Vec<Duration> = Vec::new();
    for task in tasks {
        late.extend(
            task.await?.iter().zip(&written).map(|(arrived, written)| arrived.duration_since(*written)),
        );
    }
    late.sort_unstable();
    let at = |part: usize| late[(late.len() * part / 100).min(late.len() - 1)];
    println!("watch {accept:<36} {count} watchers: p50 {:>9.1?}  p99 {:>9.1?}", at(50), at(99));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let pods: usize = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let watching: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let mut registry = Registry::new();
    register(&mut registry);
    register_admission(&mut registry);
    let server = Server::new(Store::memory(), registry, Arc::new(Now), Arc::new(Mixed(AtomicU64::new(1))));
    server.bootstrap().await.map_err(|status| status.message)?;
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    send(&server, http::Method::POST, accounts, JSON, account.into()).await?;
    let started = Instant::now();
    for number in 0..pods {
        send(&server, http::Method::POST, PODS, JSON, pod(&format!("pod-{number}"))).await?;
    }
    println!("{pods} pods created in {:.1?}", started.elapsed());

    list(&server, "JSON", PODS, JSON).await?;
    list(&server, "protobuf", PODS, BINARY).await?;
    list(&server, "Table", PODS, TABLE).await?;
    list(&server, "Table of 500", &format!("{PODS}?limit=500"), TABLE).await?;
    list(&server, "metadata", PODS, PARTIAL).await?;
    list(&server, "by label", &format!("{PODS}?labelSelector=shard%3D3"), JSON).await?;
    list(&server, "by node", &format!("{PODS}?fieldSelector=spec.nodeName%3Dnode-3"), JSON).await?;
    for (name, accept) in [("JSON", JSON), ("protobuf", BINARY), ("Table", TABLE)] {
        const TIMES: u32 = 20_000;
        let path = format!("{PODS}/pod-7");
        let started = Instant::now();
        for _ in 0..TIMES {
            get(&server, &path, accept).await?;
        }
        println!("get {name:<16} {:>8.2?}", started.elapsed() / TIMES);
    }
    for accept in [JSON, BINARY, TABLE] {
        watchers(&server, watching, accept).await?;
    }
    Ok(())
}
