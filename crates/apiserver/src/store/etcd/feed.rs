//! The watch over all keys: what happens in etcd, in order, becomes visible here.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::etcd::event::EventType;
use bowline_proto::etcd::watch_request::RequestUnion;
use bowline_proto::etcd::{self, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::awaited::Awaited;
use super::client::{Client, Watch, revision, signed, unsigned};
use super::failure::Failure;
use super::layout::{self, Layout, Place};
use super::load;
use crate::store::draft::{Draft, Slot};
use crate::store::state::Shared;

/// Between two tries to watch or to read everything, growing from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long one try to read everything goes on.
const RELOAD: Duration = Duration::from_secs(30);

/// Keeps the shared state as etcd has it; the only one that changes it.
pub struct Feed {
    pub client: Arc<Client>,
    pub layout: Layout,
    pub shared: Arc<Shared>,
    pub awaited: Arc<Awaited>,
    /// Somebody wants to know how far the feed is.
    pub nudge: Arc<Notify>,
}

/// Why a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It can go on from where it was, at any member.
    Broken(String),
    /// What comes next cannot be had: everything must be read again.
    Gap(String),
}

impl Feed {
    /// Runs until it is dropped.
    pub async fn run(self) {
        let mut pause = Duration::ZERO;
        loop {
            let ended = self.follow().await;
            // A watch that stands says so, and only its end says otherwise.
            pause = pause_after(pause, self.shared.trouble().is_none());
            match ended {
                Ended::Broken(why) => {
                    tracing::warn!(%why, "the watch on etcd broke; going on from where it was");
                    self.shared.set_trouble(Some(why));
                }
                Ended::Gap(why) => {
                    self.shared.set_trouble(Some(why.clone()));
                    tracing::error!(%why, "the watch on etcd cannot go on; reading everything, watchers start over");
                    self.reload().await;
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Watches from the version of the shared state on.
    async fn follow(&self) -> Ended {
        let (key, range_end) = self.layout.range();
        let start_revision = signed(self.shared.read().version() + 1);
        let create = WatchCreateRequest { key, range_end, start_revision, progress_notify: true };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let mut watch = match self.client.watch(create).await {
            Ok(watch) => watch,
            Err(failure) => return Ended::Broken(failure.to_string()),
        };
        let ended = self.receive(&mut watch).await;
        self.client.leave(&watch);
        ended
    }

    async fn receive(&self, watch: &mut Watch) -> Ended {
        loop {
            tokio::select! {
                biased;
                response = watch.responses.message() => match response {
                    Ok(Some(response)) => {
                        let ended = match response.created && !response.canceled {
                            true => self.begin(revision(response.header.as_ref())).await,
                            false => self.take(response),
                        };
                        if let Some(ended) = ended {
                            return ended;
                        }
                    }
                    Ok(None) => return Ended::Broken("the member ended it".into()),
                    Err(status) => return Ended::Broken(Failure::of(&status).to_string()),
                },
                () = self.nudge.notified() => {
                    let request = RequestUnion::ProgressRequest(WatchProgressRequest {});
                    // A queue that is full is full of the same question.
                    let _ = watch.requests.try_send(WatchRequest { request_union: Some(request) });
                }
            }
        }
    }

    /// The watch stands. A member that knows less than we do lags behind, or somebody put an older state of etcd back.
    async fn begin(&self, member: u64) -> Option<Ended> {
        let known = self.shared.read().version();
        if member >= known {
            self.shared.set_trouble(None);
            return None;
        }
        match self.client.revision(&self.layout, Instant::now() + RELOAD).await {
            Ok(all) if all >= known => {
                self.shared.set_trouble(None);
                None
            }
            Ok(all) => Some(Ended::Gap(format!("etcd is at revision {all}, before {known}"))),
            Err(why) => Some(Ended::Broken(why)),
        }
    }

    fn take(&self, response: WatchResponse) -> Option<Ended> {
        let reached = revision(response.header.as_ref());
        if response.canceled {
            return Some(if response.compact_revision > 0 {
                Ended::Gap(format!("revisions up to {} are compacted", response.compact_revision))
            } else {
                Ended::Broken(response.cancel_reason)
            });
        }
        if response.events.is_empty() {
            // Progress: everything up to here was delivered.
            self.shared.publish(Vec::new(), reached);
        } else {
            self.publish(response.events);
        }
        None
    }

    /// All events of one revision come in one response, so the last one says how far this is.
    fn publish(&self, events: Vec<etcd::Event>) {
        let mut draft = Draft::new(&self.shared);
        let mut version = 0;
        for event in events {
            let deletion = event.r#type() == EventType::Delete;
            let Some(kv) = event.kv else { continue };
            version = unsigned(kv.mod_revision);
            let Place::Object { resource, key } = self.layout.place(&kv.key) else { continue };
            let slot: Slot = (self.shared.read().name(resource), key);
            let current = draft.current(&slot);
            let new = if deletion { None } else { self.understand(&kv, version) };
            if new.is_none() && current.is_none() {
                continue;
            }
            match Draft::event(current, &slot.1, new, version) {
                Ok(event) => drop(draft.add(slot, event)),
                Err(why) => tracing::error!(key = ?kv.key, %why, "an event of etcd is lost"),
            }
        }
        self.shared.publish(draft.finish(), version);
    }

    /// What cannot be read counts as deleted: nobody could use it.
    fn understand(&self, kv: &etcd::KeyValue, version: u64) -> Option<serde_json::Value> {
        match layout::decode(&kv.value) {
            Ok(kept) => {
                self.awaited.saw(&kept.write_id, version);
                Some(kept.object)
            }
            Err(why) => {
                tracing::error!(key = ?kv.key, %why, "somebody else wrote an object to etcd that cannot be read");
                None
            }
        }
    }

    async fn reload(&self) {
        loop {
            match load::all(&self.client, &self.layout, Instant::now() + RELOAD).await {
                Ok((loaded, problems)) => {
                    problems.iter().for_each(|problem| tracing::error!(%problem, "left out"));
                    self.awaited.missed();
                    self.shared.replace(loaded);
                    return;
                }
                Err(failure) => tracing::error!(%failure, "etcd could not be read; trying again"),
            }
            tokio::time::sleep(PAUSE_MAX).await;
        }
    }
}

/// How long to wait once a watch ended: longer each time, and short again after one that stood.
fn pause_after(last: Duration, stood: bool) -> Duration {
    if stood { PAUSE_MIN } else { (last * 2).clamp(PAUSE_MIN, PAUSE_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_watch_stands() {
        let millis = Duration::from_millis;
        let table = [
            (Duration::ZERO, true, PAUSE_MIN),
            (Duration::ZERO, false, PAUSE_MIN),
            (PAUSE_MIN, false, millis(100)),
            (millis(100), false, millis(200)),
            (millis(800), false, PAUSE_MAX),
            (PAUSE_MAX, false, PAUSE_MAX),
            (PAUSE_MAX, true, PAUSE_MIN),
        ];
        for (last, stood, expected) in table {
            assert_eq!(pause_after(last, stood), expected, "{last:?} {stood}");
        }
    }
}
