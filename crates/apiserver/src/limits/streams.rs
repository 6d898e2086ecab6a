//! Requests that last: watches, logs, sessions in containers. A user who has too many is refused, not queued.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Refusal;
use super::level::Level;

pub struct Streams {
    max: usize,
    max_per_user: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    users: HashMap<(Level, String), usize>,
}

pub struct Taken {
    streams: Arc<Streams>,
    key: (Level, String),
}

impl Streams {
    /// 0 is no limit.
    pub fn new(max: usize, max_per_user: usize) -> Self {
        Self { max, max_per_user, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(self: &Arc<Self>, level: Level, user: &str) -> Result<Taken, Refusal> {
        let key = (level, user.to_owned());
        let mut open = self.lock();
        // The last quarter is for what the cluster needs to work.
        let max = if level == Level::System { self.max } else { self.max - self.max / 4 };
        let own = open.users.get(&key).copied().unwrap_or_default();
        let full = self.max > 0 && open.total >= max;
        // A kubelet watches each secret and config map of its pods.
        let greedy = self.max_per_user > 0 && own >= self.max_per_user;
        if full || greedy {
            return Err(Refusal::ConcurrencyLimit);
        }
        open.total += 1;
        open.users.insert(key.clone(), own + 1);
        Ok(Taken { streams: self.clone(), key })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        open.total = open.total.saturating_sub(1);
        let left = open.users.get(&self.key).map_or(0, |own| own.saturating_sub(1));
        match left {
            0 => open.users.remove(&self.key),
            left => open.users.insert(self.key.clone(), left),
        };
    }
}
