//! Connections: in total, and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Fewer than this do not matter.
const MANY: usize = 64;

pub struct Connections {
    max: usize,
    max_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    addresses: HashMap<IpAddr, usize>,
    /// The most there were since memory was last given back.
    most: usize,
}

/// A connection that counts.
pub struct ConnectionSeat {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// 0 is no limit.
    pub fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if there are too many.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSeat> {
        let mut open = self.lock();
        let own = open.addresses.get(&address).copied().unwrap_or_default();
        let full = self.max > 0 && open.total >= self.max;
        let greedy = self.max_per_address > 0 && own >= self.max_per_address;
        if full || greedy {
            return None;
        }
        open.total += 1;
        open.most = open.most.max(open.total);
        open.addresses.insert(address, own + 1);
        Some(ConnectionSeat { connections: self.clone(), address })
    }
}

impl Connections {
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

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.total = open.total.saturating_sub(1);
        match open.addresses.get(&self.address).map_or(0, |own| own.saturating_sub(1)) {
            0 => open.addresses.remove(&self.address),
            left => open.addresses.insert(self.address, left),
        };
    }
}
