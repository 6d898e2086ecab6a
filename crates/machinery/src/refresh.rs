//! Lists that are asked for: an informer's copy may lag, and a new leader must not decide on it.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Requests for a list of what the store has, and how far they are answered.
#[derive(Default)]
pub(crate) struct Refresh {
    asked: AtomicU64,
    answered: AtomicU64,
    /// Wakes in the order of waiting, so that a simulation repeats.
    changed: Notify,
}

impl Refresh {
    /// Asks for a list and waits until one that began afterwards was taken in.
    pub(crate) async fn done(&self) {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.notify_waiters();
        self.until(|| self.answered.load(Ordering::SeqCst) >= number).await;
    }

    /// Waits for a request that is not answered.
    pub(crate) async fn wanted(&self) {
        self.until(|| self.is_wanted()).await;
    }

    /// Waits for a request newer than `number`.
    pub(crate) async fn asked_after(&self, number: u64) {
        self.until(|| self.asked() > number).await;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.asked() > self.answered.load(Ordering::SeqCst)
    }

    /// The number of the newest request: a list that begins now answers it and all before.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn answer(&self, number: u64) {
        self.answered.fetch_max(number, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// No list will come any more: those who wait go on, and find that the process is to end.
    pub(crate) fn end(&self) {
        self.answer(u64::MAX);
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        loop {
            let mut woken = pin!(self.changed.notified());
            woken.as_mut().enable();
            if holds() {
                return;
            }
            woken.await;
        }
    }
}
