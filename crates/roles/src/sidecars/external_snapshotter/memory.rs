//! What this process knows of its own calls. Losing it costs a repeated call: what is open stands in an annotation.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_machinery::queue::Backoff;

use super::model::{Answer, Report};

/// By the UID of the content: another one may get its name.
#[derive(Default)]
pub(super) struct Memory(Mutex<BTreeMap<String, Record>>);

#[derive(Debug, Clone, Default)]
struct Record {
    answer: Answer,
    /// Until which uptime a report counts of a snapshot that was not ready.
    until: Option<Duration>,
    /// Reports in a row of a snapshot that was not ready.
    unready: u32,
    /// The annotation was set by this process, and no call has been sent since.
    fresh: bool,
}

impl Memory {
    pub(super) fn answer(&self, uid: &str, now: Duration) -> Answer {
        let all = self.lock();
        let current = all.get(uid).filter(|record| record.until.is_none_or(|until| now < until));
        current.map(|record| record.answer.clone()).unwrap_or_default()
    }

    /// How long until the driver is asked again.
    pub(super) fn asks_again(&self, uid: &str, now: Duration) -> Option<Duration> {
        self.lock().get(uid).and_then(|record| record.until).map(|until| until.saturating_sub(now))
    }

    pub(super) fn reported(&self, uid: &str, report: Report, now: Duration, backoff: Backoff) {
        self.change(uid, |record| {
            record.until = (!report.ready).then(|| now + pause(backoff, record.unready));
            record.unready = if report.ready { 0 } else { record.unready.saturating_add(1) };
            record.answer = Answer::Reported(report);
        });
    }

    pub(super) fn marked(&self, uid: &str) {
        self.change(uid, |record| record.fresh = true);
    }

    /// A call is sent. True if no earlier one can have taken effect.
    pub(super) fn sends(&self, uid: &str) -> bool {
        self.change(uid, |record| {
            (record.answer, record.until) = (Answer::None, None);
            std::mem::take(&mut record.fresh)
        })
    }

    /// The call was not sent after all.
    pub(super) fn not_sent(&self, uid: &str, fresh: bool) {
        self.change(uid, |record| record.fresh = fresh);
    }

    pub(super) fn set(&self, uid: &str, answer: Answer) {
        self.change(uid, |record| (record.answer, record.until) = (answer, None));
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn change<T>(&self, uid: &str, change: impl FnOnce(&mut Record) -> T) -> T {
        change(self.lock().entry(uid.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(backoff: Backoff, times: u32) -> Duration {
    backoff.start.saturating_mul(1 << times.min(20)).min(backoff.max)
}
