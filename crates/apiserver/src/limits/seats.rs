//! Requests that are being answered: seats for each level, and a share of them for each user.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Refusal;
use super::level::Level;

/// One user gets one part in this many of the seats of a level.
const SHARES: usize = 4;
/// Requests of one user that wait for a seat; upstream has six queues of fifty for each.
const WAITING_MAX: usize = 300;
/// Requests of all users of a level that wait for a seat. Upstream has 128 queues of fifty for workloads and 64 for the
/// cluster, which requests that read and those that write share; here each kind has half.
const WAITING_MAX_WORKLOAD: usize = 128 * 50 / 2;
const WAITING_MAX_SYSTEM: usize = 64 * 50 / 2;
/// How long a request waits for a seat: upstream's figure, a quarter of the time that a request may take.
const WAIT: Duration = Duration::from_secs(15);

/// The seats of one kind of request; without a limit every request has one.
pub struct Seats {
    limited: Option<Limited>,
}

struct Limited {
    system: LevelSeats,
    workload: LevelSeats,
    share: usize,
    users: Arc<Users>,
}

struct LevelSeats {
    seats: Arc<Semaphore>,
    /// Requests that may have a seat or wait for one.
    present_max: usize,
}

/// Those who have a seat or wait for one.
#[derive(Default)]
struct Users(Mutex<Present>);

#[derive(Default)]
struct Present {
    users: HashMap<(Level, String), Arc<UserSeats>>,
    /// Users of a level, and requests of all of them.
    total: HashMap<Level, (usize, usize)>,
}

struct UserSeats {
    seats: Arc<Semaphore>,
    /// Requests that have a seat or wait for one.
    present: AtomicUsize,
}

/// A seat, or a place in the line.
pub struct Taken {
    _seat: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    _place: Option<Place>,
}

/// Being present. The last one of a user takes the entry away.
struct Place {
    users: Arc<Users>,
    key: (Level, String),
    of: Arc<UserSeats>,
}

impl Seats {
    pub fn new(limit: usize) -> Self {
        if limit == 0 {
            return Self { limited: None };
        }
        // Half for each, as upstream's shares come to; what is left of an odd number is the cluster's.
        let workload = (limit / 2).max(1);
        let system = (limit - limit / 2).max(1);
        Self {
            limited: Some(Limited {
                system: LevelSeats::new(system, WAITING_MAX_SYSTEM),
                workload: LevelSeats::new(workload, WAITING_MAX_WORKLOAD),
                share: workload.div_ceil(SHARES),
                users: Arc::default(),
            }),
        }
    }

    /// Waits in the line of the user, then in that of the level: a user who floods the server waits behind their own
    /// requests.
    pub async fn take(&self, level: Level, user: &str) -> Result<Taken, Refusal> {
        let Some(limited) = &self.limited else { return Ok(Taken { _seat: None, _place: None }) };
        let place = limited.enter(level, user)?;
        let seats = &limited.of(level).seats;
        let both = async {
            let own = place.of.seats.clone().acquire_owned().await.ok()?;
            Some((own, seats.clone().acquire_owned().await.ok()?))
        };
        let seat = tokio::time::timeout(WAIT, both).await.map_err(|_| Refusal::TimeOut)?;
        Ok(Taken { _seat: seat, _place: Some(place) })
    }
}

impl LevelSeats {
    fn new(seats: usize, waiting_max: usize) -> Self {
        Self { seats: Arc::new(Semaphore::new(seats)), present_max: seats + waiting_max }
    }
}

impl Limited {
    fn of(&self, level: Level) -> &LevelSeats {
        match level {
            Level::System => &self.system,
            Level::Workload | Level::Exempt => &self.workload,
        }
    }

    fn enter(&self, level: Level, user: &str) -> Result<Place, Refusal> {
        let key = (level, user.to_owned());
        let mut present = self.users.lock();
        let own = present.users.get(&key).map_or(0, |of| of.present.load(Ordering::Relaxed));
        let (users, requests) = present.total.get(&level).copied().unwrap_or_default();
        let users = users + usize::from(own == 0);
        // A place is left for one more user: those who fill their lines do not keep others out.
        let fair = (self.of(level).present_max / (users + 1)).max(1);
        if own >= fair.min(self.share + WAITING_MAX) || requests >= self.of(level).present_max {
            return Err(Refusal::QueueFull);
        }
        let of = present.users.entry(key.clone()).or_insert_with(|| {
            let seats = Arc::new(Semaphore::new(self.share));
            Arc::new(UserSeats { seats, present: AtomicUsize::new(0) })
        });
        let of = of.clone();
        of.present.fetch_add(1, Ordering::Relaxed);
        present.total.insert(level, (users, requests + 1));
        Ok(Place { users: self.users.clone(), key, of })
    }
}

impl Users {
    fn lock(&self) -> MutexGuard<'_, Present> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut present = self.users.lock();
        let was_last = self.of.present.fetch_sub(1, Ordering::Relaxed) == 1;
        if let Some((users, requests)) = present.total.get_mut(&self.key.0) {
            *users = users.saturating_sub(usize::from(was_last));
            *requests = requests.saturating_sub(1);
        }
        if was_last {
            present.users.remove(&self.key);
        }
    }
}

#[cfg(test)]
impl Seats {
    pub fn users(&self) -> usize {
        self.limited.as_ref().map_or(0, |limited| limited.users.lock().users.len())
    }
}
