//! One write, many watchers: how long until each has heard.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::client::Kinds;
use super::objects::{self, CONFIGMAPS};
use super::subject::Subject;
use crate::figures::Timings;

/// Watches that share a connection, as those of one client-go program do.
const PER_CONNECTION: usize = 50;
/// Writes that are measured, after one that is not.
const WRITES: usize = 30;
/// The longest that an event may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn measure(subject: &Subject, watchers: usize) -> Result<Timings> {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let mut watching = tokio::task::JoinSet::new();
    for number in 0..watchers.div_ceil(PER_CONNECTION) {
        let client = subject.target.connect().await?;
        for _ in 0..PER_CONNECTION.min(watchers - number * PER_CONNECTION) {
            let path = format!("{CONFIGMAPS}?watch=true&timeoutSeconds=600");
            let answer = client.clone().open(Method::GET, &path, Kinds::JSON, Vec::new()).await?;
            watching.spawn(listen(answer.into_body(), heard.clone()));
        }
    }
    let mut writer = subject.target.connect().await?;
    let mut timings = Timings::default();
    for number in 0..=WRITES {
        let body = serde_json::to_vec(&objects::configmap(number))?;
        let sent = Instant::now();
        writer.send(Method::POST, CONFIGMAPS, Kinds::JSON, body).await.context("create a config map")?;
        for _ in 0..watchers {
            let at = tokio::time::timeout(PATIENCE, hears.recv()).await.context("wait for an event")?;
            let at: Instant = at.context("a watch ended")?;
            if number > 0 {
                timings.worked(at.saturating_duration_since(sent));
            }
        }
    }
    watching.shutdown().await;
    Ok(timings)
}

/// Tells when each event had arrived whole: every event is a line.
async fn listen(mut body: Incoming, heard: mpsc::UnboundedSender<Instant>) {
    while let Some(Ok(frame)) = body.frame().await {
        let ends = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
        for _ in 0..ends {
            // The measurement may be over already.
            let _ = heard.send(Instant::now());
        }
    }
}
