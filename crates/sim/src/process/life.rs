//! The life of one simulated process: everything it can reach ends with it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long what was begun before a process stood still may be on its way after it.
const BEGUN: Duration = Duration::from_secs(2);

/// Whether a process lives; clones share it.
///
/// Tasks of a runtime cannot be ended from outside. Instead every door of the process is shut when it dies: what its tasks
/// ask for is never answered, so nothing of it has any effect again.
#[derive(Clone, Default)]
pub struct Life {
    dead: CancellationToken,
    /// Until when the whole process stands still (SIGSTOP, a paused virtual machine).
    stalled: Arc<Mutex<Option<Instant>>>,
    /// Until when nothing gets through between this process and the API server.
    cut_off: Arc<Mutex<Option<Instant>>>,
}

impl Life {
    pub fn kill(&self) {
        self.dead.cancel();
    }

    pub fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    /// Completes when the process dies.
    pub async fn ended(&self) {
        self.dead.cancelled().await;
    }

    pub fn token(&self) -> CancellationToken {
        self.dead.clone()
    }

    /// Lets a living process through a door; a dead one waits there for ever.
    pub async fn pass(&self) {
        let stalled = *self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = stalled.filter(|until| *until > Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether it stands still or has just stood still. What it had begun before may then go on after its lease has ended.
    pub fn has_stalled(&self) -> bool {
        let stalled = *self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        stalled.is_some_and(|until| Instant::now() < until + BEGUN)
    }

    /// Stands still for a while.
    pub fn stall(&self, lasts: Duration) {
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + lasts);
    }

    /// Cuts the process off from the API server for a while.
    pub fn cut_off(&self, lasts: Duration) {
        *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + lasts);
    }

    /// Until when the process is cut off, if it is.
    pub fn cut_off_until(&self) -> Option<Instant> {
        let until = *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| *until > Instant::now())
    }
}
