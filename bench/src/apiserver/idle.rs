//! Watchers of a namespace that has much in it and in which nothing happens: what they cost the server in memory.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::mpsc;

use super::client::{Client, Kinds};
use super::subject::Subject;

pub const WATCHERS: usize = 1_200;
/// Four megabytes together.
const OBJECTS: usize = 1_000;
const SIZE: usize = 4_000;
const NAMESPACE: &str = "watched";
/// Watches that read their initial state at a time.
const AT_ONCE: usize = 8;
/// The longest that all of them may take for it.
const PATIENCE: Duration = Duration::from_secs(600);

pub async fn fill(subject: &Subject) -> Result<()> {
    let mut client = subject.target.connect().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client.send(Method::POST, "/api/v1/namespaces", Kinds::JSON, serde_json::to_vec(&namespace)?).await?;
    for number in 0..OBJECTS {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("c-{number:04}")}, "data": {"fill": "x".repeat(SIZE)}});
        client.send(Method::POST, &path(), Kinds::JSON, serde_json::to_vec(&object)?).await?;
    }
    Ok(())
}

fn path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// How much more the server takes with all watchers than before, in KiB, once each has seen every object.
pub async fn measure(subject: &Subject, per_connection: usize) -> Result<u64> {
    bowline_host::real::raise_open_files().context("raise the limit of open files")?;
    let before = subject.resident_kib()?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    let clients = subject.target.clients(WATCHERS.div_ceil(per_connection)).await?;
    let opened = stream::iter((0..WATCHERS).map(|number| clients[number / per_connection].clone()));
    let opened = opened.map(|client| open(client, ended.clone())).buffer_unordered(AT_ONCE);
    let watching: Vec<_> = tokio::time::timeout(PATIENCE, opened.try_collect()).await.context("watch")??;
    // What is on its way when the last one has seen everything is little.
    let after = subject.resident_kib()?;
    if ends.try_recv().is_ok() {
        bail!("a watch ended");
    }
    drop::<Vec<Watching>>(watching);
    Ok(after.saturating_sub(before))
}

/// A watch that is read for as long as this lives.
struct Watching(tokio::task::JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn open(mut client: Client, ended: mpsc::UnboundedSender<()>) -> Result<Watching> {
    let path = format!("{}?watch=true&timeoutSeconds=1200", path());
    let mut body = client.open(Method::GET, &path, Kinds::JSON, Vec::new()).await?.into_body();
    let mut lines = 0;
    while lines < OBJECTS {
        lines += next(&mut body).await.context("a watch ended before it said what is there")?;
    }
    Ok(Watching(tokio::spawn(async move {
        while next(&mut body).await.is_some() {}
        // The measurement may be over already.
        let _ = ended.send(());
    })))
}

/// How many events end in the next piece.
async fn next(body: &mut Incoming) -> Option<usize> {
    let frame = body.frame().await?.ok()?;
    Some(frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count()))
}
