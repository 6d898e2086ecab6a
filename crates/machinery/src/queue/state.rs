//! Which keys wait, in which pool, and which are being worked on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::Pool;

/// Where keys without a pool of their own go.
const SHARED: &str = "";

pub(super) struct State<K> {
    /// Keys to work on, by pool.
    ready: BTreeMap<String, Line<K>>,
    /// Keys in `ready`, with their pools.
    waiting: BTreeMap<K, String>,
    /// Keys that are being worked on, with their pools.
    active: BTreeMap<K, String>,
    /// Keys added while active: once more afterwards.
    dirty: BTreeSet<K>,
    pub(super) failures: BTreeMap<K, u32>,
    /// Passes in a row that ended with steps left.
    pub(super) unsettled: BTreeMap<K, u32>,
    /// When keys are looked at again although nothing changes.
    pub(super) looks: BTreeMap<K, Instant>,
    /// The pool that was served last: the next one is served next.
    last: String,
}

/// The keys of one pool.
struct Line<K> {
    keys: VecDeque<K>,
    workers: usize,
    busy: usize,
}

impl<K: Ord + Clone> State<K> {
    pub(super) fn new() -> Self {
        Self {
            ready: BTreeMap::new(),
            waiting: BTreeMap::new(),
            active: BTreeMap::new(),
            dirty: BTreeSet::new(),
            failures: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            looks: BTreeMap::new(),
            last: String::new(),
        }
    }

    /// Whether there is something new to take.
    pub(super) fn add(&mut self, key: K, pool: Option<Pool>) -> bool {
        if self.active.contains_key(&key) {
            self.dirty.insert(key);
            return false;
        }
        let known = pool.is_some();
        let Pool { name, workers } = pool.unwrap_or_else(|| Pool::new(SHARED, usize::MAX));
        match self.waiting.insert(key.clone(), name.clone()) {
            Some(before) if before == name => return false,
            // What is to be done with it has changed: it must not wait behind the keys of another pool.
            Some(before) => self.leave(&key, &before),
            None => {}
        }
        let line = self.ready.entry(name).or_insert(Line { keys: VecDeque::new(), workers, busy: 0 });
        if known {
            line.workers = workers;
        }
        line.keys.push_back(key);
        true
    }

    fn leave(&mut self, key: &K, pool: &str) {
        if let Some(line) = self.ready.get_mut(pool) {
            line.keys.retain(|other| other != key);
            if line.busy == 0 && line.keys.is_empty() {
                self.ready.remove(pool);
            }
        }
    }

    /// Puts keys that came before the pools were known into their pools.
    pub(super) fn sort(&mut self, pool_of: impl Fn(&K) -> Pool) {
        let lines = std::mem::take(&mut self.ready);
        self.waiting.clear();
        for key in lines.into_values().flat_map(|line| line.keys) {
            let pool = pool_of(&key);
            self.add(key, Some(pool));
        }
    }

    /// The next key of a pool that has a worker to spare; pools take turns.
    pub(super) fn take(&mut self) -> Option<K> {
        let free = |line: &Line<K>| !line.keys.is_empty() && line.busy < line.workers;
        let after = (std::ops::Bound::Excluded(self.last.clone()), std::ops::Bound::Unbounded);
        let turn = self.ready.range(after).chain(self.ready.iter()).find(|(_, line)| free(line));
        let pool = turn.map(|(pool, _)| pool.clone())?;
        let line = self.ready.get_mut(&pool)?;
        let key = line.keys.pop_front()?;
        line.busy += 1;
        self.last.clone_from(&pool);
        self.waiting.remove(&key);
        self.active.insert(key.clone(), pool);
        Some(key)
    }

    /// Whether the key was added again meanwhile.
    pub(super) fn finish(&mut self, key: &K) -> bool {
        if let Some(pool) = self.active.remove(key)
            && let Some(line) = self.ready.get_mut(&pool)
        {
            line.busy -= 1;
            if line.busy == 0 && line.keys.is_empty() {
                self.ready.remove(&pool);
            }
        }
        self.dirty.remove(key)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.active.len()
    }
}
