//! The one writer: compares, numbers, makes durable, publishes, answers — in this order.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::ObjectKey;
use tokio::sync::{mpsc, oneshot};

use super::backend::{Backend, Record};
use super::object::{Event, EventKind, Stored, encode};
use super::state::Shared;
use super::{Change, Expect, Write, WriteError};

/// Writes that share one disk sync at most.
const BATCH_MAX: usize = 1024;

/// A write and where its answer goes.
pub struct Job {
    pub write: Write,
    pub reply: oneshot::Sender<Result<Arc<Stored>, WriteError>>,
}

pub struct Sequencer {
    shared: Arc<Shared>,
    backend: Box<dyn Backend>,
    version: u64,
    /// Set for good when the backend failed: from then on memory and disk may differ, so nothing is
    /// written any more and a restart decides what landed.
    failed: Option<String>,
}

/// A write that passed its comparison.
struct Accepted {
    resource: Arc<str>,
    event: Arc<Event>,
}

type Pending = BTreeMap<(Arc<str>, ObjectKey), Option<Arc<Stored>>>;

impl Sequencer {
    pub fn new(shared: Arc<Shared>, backend: Box<dyn Backend>) -> Self {
        let version = shared.read().version();
        Self { shared, backend, version, failed: None }
    }

    /// Commits until all senders are gone. What queues up during one sync shares the next one.
    pub fn run(&mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while jobs.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
            let (writes, replies): (Vec<_>, Vec<_>) =
                batch.drain(..).map(|job| (job.write, job.reply)).unzip();
            for (reply, result) in replies.into_iter().zip(self.commit(writes)) {
                // A caller that went away does not undo its write.
                let _ = reply.send(result);
            }
        }
    }

    /// One batch, one sync. Results come in the order of the writes.
    pub fn commit(&mut self, writes: Vec<Write>) -> Vec<Result<Arc<Stored>, WriteError>> {
        let mut pending = Pending::new();
        let mut accepted = Vec::with_capacity(writes.len());
        let results: Vec<_> = writes
            .into_iter()
            .map(|write| {
                let done = self.accept(write, &mut pending)?;
                let object = done.event.object.clone();
                accepted.push(done);
                Ok(object)
            })
            .collect();
        if accepted.is_empty() {
            return results;
        }
        let records: Vec<Record> = accepted.iter().map(Accepted::record).collect();
        if let Err(why) = self.backend.append(&records, self.version) {
            tracing::error!(%why, "the store failed; no further writes until a restart");
            self.failed = Some(why.clone());
            self.shared.set_trouble(Some(why.clone()));
            return results
                .into_iter()
                .map(|result| result.and_then(|_| Err(WriteError::Unavailable(why.clone()))))
                .collect();
        }
        self.shared.publish(accepted.into_iter().map(|a| (a.resource, a.event)).collect());
        results
    }

    /// Compares with what is there, including earlier writes of this batch, and gives out a version.
    fn accept(&mut self, write: Write, pending: &mut Pending) -> Result<Accepted, WriteError> {
        if let Some(why) = &self.failed {
            return Err(WriteError::Unavailable(why.clone()));
        }
        let Write { resource, key, expect, change } = write;
        let slot = (resource, key);
        let current = match pending.get(&slot) {
            Some(current) => current.clone(),
            None => self.shared.read().object(&slot.0, &slot.1),
        };
        let expected = match (expect, &current) {
            (Expect::Absent, None) => true,
            (Expect::Version(version), Some(object)) => object.version == version,
            _ => false,
        };
        if !expected {
            return Err(WriteError::Conflict { current });
        }
        let (kind, value) = match (change, &current) {
            (Change::Put(value), None) => (EventKind::Added, value),
            (Change::Put(value), Some(_)) => (EventKind::Modified, value),
            (Change::Delete, Some(object)) => (EventKind::Deleted, object.value()),
            (Change::Delete, None) => return Err(WriteError::Conflict { current }),
        };
        let version = self.version + 1;
        let (json, frame) = encode(kind, value, version).map_err(WriteError::Unavailable)?;
        self.version = version;
        let object = Arc::new(Stored::new(slot.1.clone(), version, json));
        let resource = slot.0.clone();
        pending.insert(slot, (kind != EventKind::Deleted).then(|| object.clone()));
        let event = Event { kind, version, object, previous: current, frame };
        Ok(Accepted { resource, event: Arc::new(event) })
    }
}

impl Accepted {
    fn record(&self) -> Record {
        let object = &self.event.object;
        let live = self.event.kind != EventKind::Deleted;
        Record {
            resource: self.resource.clone(),
            key: object.key.clone(),
            version: object.version,
            json: live.then(|| object.json.clone()),
        }
    }
}
