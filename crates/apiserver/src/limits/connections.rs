//! Connections: in total, from one address, and of clients that did not show yet who they are.
//!
//! A client without credentials can open as many connections as there are. So those whose client is not known have a part
//! of all of them, and when that is used up, the oldest one of them makes way: a client with credentials shows them within
//! moments, and its connection then counts among the known ones.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Fewer than this do not matter.
const MANY: usize = 64;
/// Clients that are not known get one part in this many.
const UNKNOWN_SHARES: usize = 2;

pub struct Connections {
    max: usize,
    max_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    addresses: HashMap<IpAddr, usize>,
    /// Of clients that are not known, oldest first.
    unknown: BTreeMap<u64, Unknown>,
    /// Given to the next connection.
    number: u64,
    /// The most there were since memory was last given back.
    most: usize,
}

struct Unknown {
    address: IpAddr,
    evicted: CancellationToken,
}

/// A connection that counts.
pub struct ConnectionSeat {
    connections: Arc<Connections>,
    address: IpAddr,
    number: u64,
    /// Cancelled when it has to make way.
    pub evicted: CancellationToken,
}

/// Tells that the client of a connection is known; put into the extensions of its requests.
#[derive(Clone)]
pub struct ConnectionOwner {
    connections: Arc<Connections>,
    number: u64,
    /// Said once, not with each request.
    known: Arc<AtomicBool>,
}

impl Connections {
    /// 0 is no limit.
    pub fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if there are too many and none can make way.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSeat> {
        let mut open = self.lock();
        let own = open.addresses.get(&address).copied().unwrap_or_default();
        let full = self.max > 0 && open.total >= self.max;
        let unknown = self.max > 0 && open.unknown.len() >= (self.max / UNKNOWN_SHARES).max(1);
        let greedy = self.max_per_address > 0 && own >= self.max_per_address;
        // One of the same address makes way if it is that which has too many.
        let made_way = match (greedy, full || unknown) {
            (true, _) => open.evict(|other| other.address == address),
            (false, true) => open.evict(|_| true),
            (false, false) => true,
        };
        if !made_way {
            return None;
        }
        let (number, evicted) = (open.number, CancellationToken::new());
        open.number += 1;
        open.unknown.insert(number, Unknown { address, evicted: evicted.clone() });
        open.add(address);
        Some(ConnectionSeat { connections: self.clone(), address, number, evicted })
    }

    /// Whether there are so many less that what they took is worth giving back. Says so once.
    pub fn have_subsided(&self) -> bool {
        let mut open = self.lock();
        let subsided = open.most >= MANY && open.total <= open.most / 2;
        if subsided {
            open.most = open.total;
        }
        subsided
    }
}

impl Open {
    /// Ends the oldest of those whose client is not known. It no longer counts, although it takes a moment to end.
    fn evict(&mut self, fits: impl Fn(&Unknown) -> bool) -> bool {
        let oldest = self.unknown.iter().find(|(_, other)| fits(other)).map(|(number, _)| *number);
        let Some(evicted) = oldest.and_then(|number| self.unknown.remove(&number)) else { return false };
        self.remove(evicted.address);
        evicted.evicted.cancel();
        true
    }

    fn add(&mut self, address: IpAddr) {
        self.total += 1;
        self.most = self.most.max(self.total);
        *self.addresses.entry(address).or_default() += 1;
    }

    fn remove(&mut self, address: IpAddr) {
        self.total = self.total.saturating_sub(1);
        match self.addresses.get(&address).map_or(0, |own| own.saturating_sub(1)) {
            0 => self.addresses.remove(&address),
            left => self.addresses.insert(address, left),
        };
    }
}

impl ConnectionSeat {
    pub fn owner(&self) -> ConnectionOwner {
        ConnectionOwner { connections: self.connections.clone(), number: self.number, known: Arc::default() }
    }
}

impl ConnectionOwner {
    /// The client has shown who it is: its connection no longer makes way for others.
    pub fn is_known(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.connections.lock().unknown.remove(&self.number);
        }
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.unknown.remove(&self.number);
        // One that had to make way is not counted any more.
        if !self.evicted.is_cancelled() {
            open.remove(self.address);
        }
    }
}
