//! The audit log: who did what and when, one line of JSON per stage of a request (`audit.k8s.io/v1`, level Metadata).
//!
//! Lines go through a bounded queue to a thread that writes them. When the queue is full, requests wait: nothing is
//! dropped for want of speed, as with upstream's blocking mode. A line that cannot be written is counted and complained
//! of; requests go on. Neither bodies nor headers get in here, so no secret does.

mod end;
mod event;
mod file;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bowline_host::Clock;
use http::Response;
use http::header::HeaderValue;
use http::request::Parts;
use tokio::sync::mpsc;

use super::access::{Admitted, Refused};
use crate::admission::AdmissionNotes;
use crate::http::body::Body;
use crate::status::Status;
use end::End;
use event::{Record, Stage};
use file::LogFile;

/// Lines that wait for the disk; more requests than this wait too.
const QUEUE_MAX: usize = 1024;
/// Lines written at a time.
const BATCH_MAX: usize = 256;
/// How long the end of the server waits for the last lines.
const FLUSH_WAIT: Duration = Duration::from_secs(5);
const AUDIT_ID: &str = "audit-id";

/// `--audit-log-*`.
#[derive(Debug, Clone, Default)]
pub struct AuditSettings {
    /// `-` is standard output.
    pub path: PathBuf,
    /// A file that would grow beyond this many megabytes is put aside; zero stands for 100.
    pub max_size: u64,
    /// How many of those are kept; zero keeps all.
    pub max_backups: usize,
    /// Days after which they are removed; zero keeps them.
    pub max_age: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("open audit log `{path}`: {source}")]
    Open { path: PathBuf, source: std::io::Error },
    #[error("start the audit log: {0}")]
    Start(std::io::Error),
}

enum Entry {
    Line(Vec<u8>),
    /// Answered when everything before it is written.
    Flush(std::sync::mpsc::Sender<()>),
}

/// The log. Dropping it waits for the last lines.
pub struct Audit {
    queue: mpsc::Sender<Entry>,
    lost: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

/// A request under way. Dropping it ends it.
pub struct Audited<'a> {
    audit: &'a Audit,
    end: End,
}

impl Audit {
    pub fn open(settings: AuditSettings, clock: Arc<dyn Clock>) -> Result<Self, AuditError> {
        let path = settings.path.clone();
        let file = LogFile::open(settings, clock.clone());
        let mut file = file.map_err(|source| AuditError::Open { path, source })?;
        let (queue, entries) = mpsc::channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = lost.clone();
        let writing = move || write(entries, &mut file, &counter);
        std::thread::Builder::new().name("audit".into()).spawn(writing).map_err(AuditError::Start)?;
        Ok(Self { queue, lost, clock })
    }

    /// Lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Begins with a request; the client hears the same `id`.
    pub fn begin(&self, head: &Parts, id: String) -> Audited<'_> {
        Audited { audit: self, end: End::new(self, Record::new(head, id, self.clock.now())) }
    }

    async fn line(&self, record: &Record, stage: Stage) {
        let line = record.line(stage, self.clock.now());
        if self.queue.send(Entry::Line(line)).await.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Audited<'_> {
    /// The request is let in or not: the first stage.
    pub async fn received(&mut self, outcome: Result<&Admitted, &Refused>) {
        let record = &mut self.end.record;
        match outcome {
            Ok(admitted) => record.admitted(admitted),
            Err(refused) => record.refused(refused),
        }
        // Upstream says nothing of strangers before the answer.
        if record.is_known() {
            self.audit.line(record, Stage::RequestReceived).await;
        }
    }

    /// The last stage, or for long answers the last but one; their end is noticed when it comes.
    pub async fn answered(
        mut self,
        response: Response<Body>,
        failure: Option<&Status>,
        notes: &AdmissionNotes,
    ) -> Response<Body> {
        let record = &mut self.end.record;
        record.annotate(notes.audit_annotations());
        record.answered(response.status().as_u16(), failure);
        let (mut head, mut body) = response.into_parts();
        if let Ok(id) = HeaderValue::from_str(record.id()) {
            head.headers.insert(AUDIT_ID, id);
        }
        let long = record.is_long_running() && failure.is_none();
        let stage = if long { Stage::ResponseStarted } else { record.last_stage() };
        self.audit.line(record, stage).await;
        if long {
            body.hold(self.end);
        } else {
            self.end.told();
        }
        Response::from_parts(head, body)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let (done, wait) = std::sync::mpsc::channel();
        if self.queue.try_send(Entry::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH_WAIT);
        }
    }
}

/// Writes until all senders are gone.
fn write(mut entries: mpsc::Receiver<Entry>, file: &mut LogFile, lost: &AtomicU64) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while entries.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        let mut failure = None;
        let mut flushed = Vec::new();
        for entry in batch.drain(..) {
            match entry {
                Entry::Line(line) => {
                    if let Err(error) = file.write(&line) {
                        lost.fetch_add(1, Ordering::Relaxed);
                        failure = Some(error);
                    }
                }
                Entry::Flush(done) => flushed.push(done),
            }
        }
        failure = file.flush().err().or(failure);
        if let Some(error) = failure {
            tracing::error!(%error, lost = lost.load(Ordering::Relaxed), "the audit log cannot be written");
        }
        for done in flushed {
            // Whoever waited may have given up.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests;
