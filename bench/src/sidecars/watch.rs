//! One watch of a kind: when each object came to the state that is waited for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::watch;

use crate::apiserver::client::{Client, Kinds};

/// When each object, by name, was first seen as wanted.
type Seen = BTreeMap<String, Instant>;

pub struct Watch {
    seen: watch::Receiver<Seen>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// `wanted` gets the type of an event and its object, and gives the name under which it is to be noted.
    pub async fn start(
        mut client: Client,
        path: &str,
        wanted: impl Fn(&str, &Value) -> Option<String> + Send + 'static,
    ) -> Result<Self> {
        let path = format!("{path}?watch=1&allowWatchBookmarks=false");
        let answer = client.open(Method::GET, &path, Kinds::JSON, Vec::new()).await?;
        if !answer.status().is_success() {
            bail!("watch `{path}`: {}", answer.status());
        }
        let (report, seen) = watch::channel(Seen::new());
        let task = tokio::spawn(async move {
            let (mut body, mut buffer) = (answer.into_body(), Vec::new());
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                buffer.extend_from_slice(&data);
                while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                    let kind = event["type"].as_str().unwrap_or_default();
                    if let Some(name) = wanted(kind, &event["object"]) {
                        report.send_modify(|seen| {
                            seen.entry(name).or_insert_with(Instant::now);
                        });
                    }
                }
            }
        });
        Ok(Self { seen, task })
    }

    /// Waits until all of these were seen; how long each took since it was begun.
    pub async fn all(
        &mut self,
        begun: &BTreeMap<String, Instant>,
        patience: Duration,
    ) -> Result<Vec<Duration>> {
        let whole = self.seen.wait_for(|seen| begun.keys().all(|name| seen.contains_key(name)));
        let whole = tokio::time::timeout(patience, whole).await.is_ok_and(|whole| whole.is_ok());
        let seen = self.seen.borrow().clone();
        if !whole {
            let missing = begun.keys().filter(|name| !seen.contains_key(*name)).count();
            bail!("{missing} of {} were not done after {} s", begun.len(), patience.as_secs());
        }
        let took = |(name, at): (&String, &Instant)| Some(seen.get(name)?.saturating_duration_since(*at));
        Ok(begun.iter().filter_map(took).collect())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
