//! Connections: in total, from one address, of one user, and of clients that did not show yet who they are.
//!
//! A client without credentials can open as many connections as there are. So those whose client is not known have a part
//! of all of them, and when that is used up, the oldest one of them makes way: a client with credentials shows them within
//! moments, and its connection then counts among the known ones, which never make way.
//!
//! A pod with a token is a known client, and it has as many addresses as it likes. So one user gets a part, too, and all
//! workloads together leave a quarter to what the cluster needs to work. A connection beyond that stays among those that
//! make way, and its requests are refused.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::level::Level;
use crate::auth::User;

/// Fewer than this do not matter.
const MANY: usize = 64;
/// Clients that are not known get one part in this many.
const UNKNOWN_SHARES: usize = 2;
/// One user gets one part in this many.
const USER_SHARES: usize = 8;
/// Workloads leave one part in this many to others, in total and at each address.
const KEPT_SHARES: usize = 4;

pub struct Connections {
    max: usize,
    max_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    addresses: HashMap<IpAddr, usize>,
    /// Of clients that are known, and whose they are.
    known: HashMap<u64, Known>,
    users: HashMap<Owner, usize>,
    /// Known ones of workloads.
    workloads: usize,
    workload_addresses: HashMap<IpAddr, usize>,
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

/// A name can be in use at several levels.
type Owner = (Level, String);

struct Known {
    address: IpAddr,
    owner: Owner,
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
    /// Counted once, not with each request.
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

    /// Counts a connection for a user; `false` if that one has too many. One that has made way or ended counts no more.
    fn count_for(&self, number: u64, user: &User) -> bool {
        let mut open = self.lock();
        let Some(address) = open.unknown.get(&number).map(|unknown| unknown.address) else { return true };
        let owner = (Level::of(user), user.name.clone());
        if !self.allows(&open, &owner, address) {
            return false;
        }
        open.unknown.remove(&number);
        open.add_known(number, Known { address, owner });
        true
    }

    fn allows(&self, open: &Open, owner: &Owner, address: IpAddr) -> bool {
        let below = |taken: Option<usize>, max: usize| max == 0 || taken.unwrap_or_default() < max;
        let workloads_max = |max: usize| max - max / KEPT_SHARES;
        let own = below(open.users.get(owner).copied(), self.max.div_ceil(USER_SHARES));
        match owner.0 {
            Level::Exempt => true,
            Level::System => own,
            Level::Workload => {
                let here = open.workload_addresses.get(&address).copied();
                own && below(Some(open.workloads), workloads_max(self.max))
                    && below(here, workloads_max(self.max_per_address))
            }
        }
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
        one_less(&mut self.addresses, &address);
    }

    fn add_known(&mut self, number: u64, known: Known) {
        *self.users.entry(known.owner.clone()).or_default() += 1;
        if known.owner.0 == Level::Workload {
            self.workloads += 1;
            *self.workload_addresses.entry(known.address).or_default() += 1;
        }
        self.known.insert(number, known);
    }

    fn remove_known(&mut self, number: u64) {
        let Some(known) = self.known.remove(&number) else { return };
        one_less(&mut self.users, &known.owner);
        if known.owner.0 == Level::Workload {
            self.workloads = self.workloads.saturating_sub(1);
            one_less(&mut self.workload_addresses, &known.address);
        }
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}

impl ConnectionSeat {
    pub fn owner(&self) -> ConnectionOwner {
        ConnectionOwner { connections: self.connections.clone(), number: self.number, known: Arc::default() }
    }
}

impl ConnectionOwner {
    /// The client has shown who it is: its connection no longer makes way for others. `false` if the user has too many
    /// already; that is asked again with each request.
    pub fn is_known(&self, user: &User) -> bool {
        if self.known.load(Ordering::Relaxed) {
            return true;
        }
        let counted = self.connections.count_for(self.number, user);
        self.known.store(counted, Ordering::Relaxed);
        counted
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.unknown.remove(&self.number);
        open.remove_known(self.number);
        // One that had to make way is not counted any more.
        if !self.evicted.is_cancelled() {
            open.remove(self.address);
        }
    }
}
