//! How many durable creates per second: `writes PLACE [SECONDS]`, with 1, 16 and 64 writers. A place is a directory,
//! `-` for memory, or the address of an etcd (http://127.0.0.1:2379).
//!
//! Each writer sends whole requests to the service in this process and waits for each answer.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline_apiserver::kinds::register::{register, register_admission};
use bowline_apiserver::store::{EtcdSettings, Options};
use bowline_apiserver::{Registry, Server, Store};
use bowline_host::{Clock, Random};
use http_body_util::{BodyExt, Full};

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

fn claim(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"{name}","annotations":{{"note":"{}"}}}},"spec":{{"accessModes":["ReadWriteOnce"],"storageClassName":"fast","resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#,
        "x".repeat(300)
    )
}

async fn create(server: &Server, name: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let request = http::Request::post("/api/v1/namespaces/default/persistentvolumeclaims")
        .header("content-type", "application/json")
        .body(Full::new(bytes::Bytes::from(claim(&name))))?;
    let response = server.handle(request).await;
    if response.status() != 201 {
        let body = response.into_body().collect().await?.to_bytes();
        return Err(String::from_utf8_lossy(&body).into_owned().into());
    }
    Ok(())
}

/// Below a prefix of its own, so that each run starts empty.
async fn etcd(url: &str) -> Result<Store, bowline_apiserver::store::OpenError> {
    let settings = EtcdSettings {
        servers: vec![url.to_owned()],
        prefix: format!("/bowline-writes-{}", std::process::id()),
        ca_file: None,
        cert_file: None,
        key_file: None,
        compaction_interval: Duration::ZERO,
    };
    Store::open_etcd(settings, Options::default(), &Mixed(AtomicU64::new(1))).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().ok_or("writes PLACE [SECONDS]")?;
    let seconds = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let store = match place.as_str() {
        "-" => Store::memory(),
        url if url.starts_with("http") => etcd(url).await?,
        dir => Store::open_file(Path::new(dir))?,
    };
    let mut registry = Registry::new();
    register(&mut registry);
    register_admission(&mut registry);
    let server = Server::new(store, registry, Arc::new(Now), Arc::new(Mixed(AtomicU64::new(1))));
    server.bootstrap().await.map_err(|status| status.message)?;

    for writers in [1, 16, 64] {
        let stop = Arc::new(AtomicBool::new(false));
        let started = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let (server, stop) = (server.clone(), stop.clone());
                tokio::spawn(async move {
                    let mut done = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        create(&server, format!("c{writers}-{writer}-{done}")).await?;
                        done += 1;
                    }
                    Ok::<u64, Box<dyn std::error::Error + Send + Sync>>(done)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        stop.store(true, Ordering::Relaxed);
        let mut total = 0;
        for task in tasks {
            total += task.await??;
        }
        let rate = total as f64 / started.elapsed().as_secs_f64();
        println!("{writers:>3} writers: {rate:>8.0} creates/s");
    }
    Ok(())
}
