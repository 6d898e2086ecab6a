//! The one writer: compares, numbers, makes durable, publishes, answers — in this order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::backend::{AppendError, Backend, Record};
use super::draft::{Draft, Events, Slot};
use super::errors::{Trouble, WriteError};
use super::expiry::Expiries;
use super::object::{Event, EventKind, Stored};
use super::options::{Options, expires};
use super::recovery::{self, Found};
use super::room::{Growth, Purpose, Room, Wanted};
use super::state::{FIRST_VERSION, Shared};
use super::{Change, Expect, Write};
use crate::metadata;

/// Writes that share one disk sync at most.
const BATCH_MAX: usize = 1024;
/// How often those are refused who come while the backend does not work.
const REFUSE_PAUSE: Duration = Duration::from_millis(250);
/// Between two tries to open a failed backend again: the first, and the longest after doubling.
const REOPEN_FIRST: Duration = Duration::from_millis(250);
const REOPEN_MAX: Duration = Duration::from_secs(8);

/// A write and where its answer goes.
pub struct Job {
    pub write: Write,
    pub reply: oneshot::Sender<Result<Arc<Stored>, WriteError>>,
}

pub struct Sequencer {
    shared: Arc<Shared>,
    backend: Box<dyn Backend>,
    options: Options,
    expiries: Option<Arc<Expiries>>,
    version: u64,
    /// Set while memory and disk may differ; nothing is written meanwhile.
    failed: Option<Failed>,
}

/// A batch of which nothing is known.
struct Failed {
    why: String,
    batch: Batch,
}

/// Writes that passed their comparisons and go to the disk together.
struct Batch {
    version: u64,
    records: Vec<Record>,
    events: Events,
}

impl Sequencer {
    pub fn new(
        shared: Arc<Shared>,
        backend: Box<dyn Backend>,
        options: Options,
        expiries: Option<Arc<Expiries>>,
    ) -> Self {
        let version = shared.read().version();
        Self { shared, backend, options, expiries, version, failed: None }
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
            self.recover(&mut jobs);
        }
    }

    /// Stays until the backend works again; who comes meanwhile is refused at once.
    fn recover(&mut self, jobs: &mut mpsc::Receiver<Job>) {
        let (mut pause, mut next) = (REOPEN_FIRST, Instant::now());
        while let Some(failed) = self.failed.take() {
            let trouble = Trouble::NotWritten(failed.why.clone());
            while let Ok(job) = jobs.try_recv() {
                let _ = job.reply.send(Err(trouble.clone().into()));
            }
            if jobs.is_closed() {
                self.failed = Some(failed);
                return;
            }
            if Instant::now() < next {
                self.failed = Some(failed);
                std::thread::sleep(REFUSE_PAUSE);
                continue;
            }
            let _ = self.settle(failed);
            if self.failed.is_none() {
                self.shared.set_trouble(None);
                tracing::info!("the store takes writes again");
            }
            // Everything is read at each try, and a disk that fails is not mended within moments.
            next = Instant::now() + pause;
            pause = (pause * 2).min(REOPEN_MAX);
        }
    }

    /// One batch, one sync. Results come in the order of the writes.
    pub fn commit(&mut self, writes: Vec<Write>) -> Vec<Result<Arc<Stored>, WriteError>> {
        let shared = self.shared.clone();
        let mut draft = Draft::new(&shared);
        let mut room = self.room();
        let mut accept = |write| match &mut room {
            Ok(room) => self.accept(write, &mut draft, room),
            Err(trouble) => Err(trouble.clone().into()),
        };
        let results: Vec<_> = writes.into_iter().map(&mut accept).collect();
        let events = draft.finish();
        if let Some(wanted) = room.ok().map(|room| room.wanted).filter(|wanted| *wanted != Wanted::default())
        {
            self.backend.make_room(wanted);
        }
        if events.is_empty() {
            return results;
        }
        let records = events.iter().map(|(resource, event)| self.record(resource, event)).collect();
        let batch = Batch { version: self.version, records, events };
        match self.persist(batch) {
            Ok(()) => results,
            Err(trouble) => {
                results.into_iter().map(|result| result.and_then(|_| Err(trouble.clone().into()))).collect()
            }
        }
    }

    /// Compares with what is there, including earlier writes of this batch, and gives out a version.
    fn accept(
        &mut self,
        write: Write,
        draft: &mut Draft<'_>,
        room: &mut Room,
    ) -> Result<Arc<Stored>, WriteError> {
        let Write { resource, key, expect, change } = write;
        let slot: Slot = (resource, key);
        let current = draft.current(&slot);
        let expected = match (expect, &current) {
            (Expect::Absent, None) => true,
            (Expect::Version(version), Some(object)) => object.version == version,
            _ => false,
        };
        let new = match change {
            Change::Put(value) => Some(value),
            Change::Delete => None,
        };
        if !expected || (new.is_none() && current.is_none()) {
            return Err(WriteError::Conflict { current });
        }
        let leaving = new.as_ref().is_none_or(|new| current.as_deref().is_some_and(|old| leaves(old, new)));
        let version = self.version + 1;
        let event = Draft::event(current, &slot.1, new, version).map_err(Trouble::NotWritten)?;
        room.admit(growth(&event, Purpose::of(&slot.0, &slot.1.namespace, leaving)))?;
        self.version = version;
        Ok(draft.add(slot, event))
    }

    fn room(&self) -> Result<Room, Trouble> {
        let space = if self.options.free_min == 0 { Ok(None) } else { self.backend.space() };
        Ok(Room {
            quota: self.options.quota,
            used: self.shared.read().bytes(),
            space: space.map_err(Trouble::NotWritten)?,
            free_min: self.options.free_min,
            wanted: Wanted::default(),
        })
    }

    fn record(&self, resource: &Arc<str>, event: &Event) -> Record {
        let object = &event.object;
        let live = event.kind != EventKind::Deleted;
        let expiries = self.expiries.as_ref().filter(|_| live && expires(resource));
        Record {
            resource: resource.clone(),
            key: object.key.clone(),
            version: object.version,
            json: live.then(|| object.json.clone()),
            expires: expiries.map(|expiries| expiries.end()),
        }
    }

    /// Durable first, visible second.
    fn persist(&mut self, batch: Batch) -> Result<(), Trouble> {
        match self.backend.append(&batch.records, batch.version) {
            Ok(()) => {
                self.publish(batch);
                Ok(())
            }
            Err(AppendError { why, full }) => {
                tracing::error!(%why, "a write to the store failed; reading back what landed");
                let settled = self.settle(Failed { why, batch });
                match settled {
                    Err(Trouble::NotWritten(why)) if full => Err(Trouble::Full(format!(
                        "{why}: the disk of the store is full. Make room on that disk; reads go on"
                    ))),
                    other => other,
                }
            }
        }
    }

    /// Opens the backend anew and finds out whether a batch is there. If that fails, too, it stays unknown.
    fn settle(&mut self, failed: Failed) -> Result<(), Trouble> {
        match self.look(&failed.batch) {
            Ok(Found::Landed) => {
                self.publish(failed.batch);
                Ok(())
            }
            Ok(Found::Lost) => Err(Trouble::NotWritten(failed.why)),
            Err(why) => {
                let trouble = Trouble::Unknown(failed.why.clone());
                // Said once for each reason, not at each try.
                if self.shared.trouble().as_ref() != Some(&why) {
                    tracing::error!(%why, "the store could not be opened again; reads go on, writes are refused");
                }
                self.shared.set_trouble(Some(why));
                self.failed = Some(failed);
                Err(trouble)
            }
        }
    }

    fn look(&mut self, batch: &Batch) -> Result<Found, String> {
        let loaded = self.backend.reopen()?;
        let on_disk = loaded.version.max(FIRST_VERSION);
        let found = recovery::found(self.shared.read().version(), batch.version, on_disk)?;
        if found == Found::Landed {
            // It is readable, but the disk may not have it: only a sync that succeeds says so.
            self.backend.append(&batch.records, batch.version).map_err(|error| error.why)?;
        }
        Ok(found)
    }

    fn publish(&mut self, batch: Batch) {
        if let Some(expiries) = &self.expiries {
            for record in batch.records.into_iter().filter(|record| expires(&record.resource)) {
                let slot = (record.resource, record.key);
                match record.expires {
                    Some(at) => expiries.set(slot, record.version, at),
                    None => expiries.forget(&slot),
                }
            }
        }
        self.shared.publish(batch.events, batch.version);
    }
}

/// Whether an update brings the end of an object nearer. Others may repeat for ever what they write to one that waits for
/// its end.
fn leaves(old: &Stored, new: &Value) -> bool {
    let fewer = || metadata::finalizers(new).len() < metadata::finalizers(&old.value()).len();
    metadata::deleting(new) && (!old.deleting() || fewer())
}

fn growth(event: &Event, purpose: Purpose) -> Growth {
    let after = if event.kind == EventKind::Deleted { 0 } else { event.object.bytes() };
    Growth { before: event.previous.as_ref().map_or(0, |object| object.bytes()), after, purpose }
}
