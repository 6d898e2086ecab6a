//! Leases for objects that go away by themselves. Granting one costs as much as a write, so many objects share one.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::Client;
use super::failure::Failure;

/// Both limits are upstream's: objects of a lease, and how much longer than asked for an object may live.
const OBJECTS_MAX: usize = 1000;
const SHARED_FOR_MAX: Duration = Duration::from_secs(60);
/// The same as a part of the lifetime, whichever is less.
const SHARED_FOR_PART: u32 = 20;

pub struct Leases {
    ttl: Option<Duration>,
    current: Mutex<Option<Lease>>,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    id: i64,
    /// Objects attached until then live long enough.
    until: Instant,
    objects: usize,
}

impl Lease {
    fn serves(&self, now: Instant) -> bool {
        now <= self.until && self.objects < OBJECTS_MAX
    }
}

impl Leases {
    pub fn new(ttl: Option<Duration>) -> Self {
        Self { ttl, current: Mutex::new(None) }
    }

    /// The lease for an object that is written now; 0 is none.
    pub async fn take(&self, client: &Client, deadline: Instant) -> Result<i64, Failure> {
        let Some(ttl) = self.ttl else { return Ok(0) };
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some(lease) = current.as_mut().filter(|lease| lease.serves(now)) {
            lease.objects += 1;
            return Ok(lease.id);
        }
        let shared_for = shared_for(ttl);
        let seconds = i64::try_from((ttl + shared_for).as_secs().max(1)).unwrap_or(i64::MAX);
        let id = client.grant(seconds, deadline).await?;
        // Counted from before the grant, so that it is never promised for too long.
        *current = Some(Lease { id, until: now + shared_for, objects: 1 });
        Ok(id)
    }

    /// This lease is gone before its time: somebody revoked it.
    pub async fn forget(&self, id: i64) {
        let mut current = self.current.lock().await;
        if current.is_some_and(|lease| lease.id == id) {
            *current = None;
        }
    }
}

fn shared_for(ttl: Duration) -> Duration {
    (ttl / SHARED_FOR_PART).min(SHARED_FOR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_lease_is_shared() {
        assert_eq!(shared_for(Duration::from_secs(3600)), Duration::from_secs(60));
        assert_eq!(shared_for(Duration::from_secs(100)), Duration::from_secs(5));
        let now = Instant::now();
        let lease = Lease { id: 1, until: now + Duration::from_secs(5), objects: OBJECTS_MAX - 1 };
        assert!(lease.serves(now) && lease.serves(lease.until));
        assert!(!lease.serves(lease.until + Duration::from_millis(1)));
        assert!(!Lease { objects: OBJECTS_MAX, ..lease }.serves(now));
    }
}
