//! Requests as fast as a number of clients can send them, one at a time each.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;

use super::client::{Client, Kinds};
use super::objects::{self, MERGE_PATCH, PODS};
use super::subject::Subject;
use crate::figures::Timings;

/// What many requests of one sort took.
pub struct Load {
    pub count: usize,
    pub wall: Duration,
    pub each: Timings,
}

/// Each client takes the next number whenever it is done with one; the first failure ends all.
async fn each<F>(subject: &Subject, numbers: Range<usize>, clients: usize, send: F) -> Result<Load>
where
    F: AsyncFn(&mut Client, usize) -> Result<()>,
{
    let connections = subject.target.clients(clients).await?;
    let next = AtomicUsize::new(numbers.start);
    let began = Instant::now();
    let workers = connections.into_iter().map(async |mut client| {
        let mut times = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return anyhow::Ok(times);
            }
            let sent = Instant::now();
            send(&mut client, number).await?;
            times.push(sent.elapsed());
        }
    });
    let times = futures::future::try_join_all(workers).await?;
    Ok(Load { count: numbers.len(), wall: began.elapsed(), each: times.into_iter().flatten().collect() })
}

pub async fn create(subject: &Subject, numbers: Range<usize>, clients: usize) -> Result<Load> {
    each(subject, numbers, clients, async |client, number| {
        let body = serde_json::to_vec(&objects::pod(number))?;
        client.send(Method::POST, PODS, Kinds::JSON, body).await.context("create a pod").map(drop)
    })
    .await
}

/// Whole objects with one change, without a resourceVersion; read beforehand.
pub async fn update(subject: &Subject, count: usize, clients: usize) -> Result<Load> {
    let mut client = subject.target.connect().await?;
    let mut bodies = Vec::with_capacity(count);
    for number in 0..count {
        let path = format!("{PODS}/{}", objects::name(number));
        let mut pod =
            serde_json::from_slice(&client.send(Method::GET, &path, Kinds::JSON, Vec::new()).await?)?;
        objects::changed(&mut pod, 1);
        bodies.push(serde_json::to_vec(&pod)?);
    }
    each(subject, 0..count, clients, async |client, number| {
        let path = format!("{PODS}/{}", objects::name(number));
        let body = bodies[number].clone();
        client.send(Method::PUT, &path, Kinds::JSON, body).await.context("update a pod").map(drop)
    })
    .await
}

pub async fn patch_status(subject: &Subject, count: usize, clients: usize) -> Result<Load> {
    each(subject, 0..count, clients, async |client, number| {
        let path = format!("{PODS}/{}/status", objects::name(number));
        let kinds = Kinds { content: MERGE_PATCH, ..Kinds::JSON };
        let body = serde_json::to_vec(&objects::status(number))?;
        client.send(Method::PATCH, &path, kinds, body).await.context("patch a status").map(drop)
    })
    .await
}

pub async fn get(subject: &Subject, count: usize, clients: usize) -> Result<Load> {
    each(subject, 0..count, clients, async |client, number| {
        let path = format!("{PODS}/{}", objects::name(number % 1_000));
        client.send(Method::GET, &path, Kinds::JSON, Vec::new()).await.context("get a pod").map(drop)
    })
    .await
}

/// All pods at once, one list after the other.
pub async fn list(subject: &Subject, accept: &str, count: usize) -> Result<Timings> {
    let load = each(subject, 0..count, 1, async |client, _| {
        let kinds = Kinds { accept, ..Kinds::JSON };
        client.send(Method::GET, PODS, kinds, Vec::new()).await.context("list pods").map(drop)
    });
    Ok(load.await?.each)
}
