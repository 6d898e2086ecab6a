//! Which keys wait, in which pool, and which are being worked on.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::Pool;
use crate::backlog::{LastError, Operation};

/// Where keys without a pool of their own go.
const SHARED: &str = "";

pub(super) struct State<K> {
    /// Keys to work on, by pool.
    ready: BTreeMap<String, Line<K>>,
    /// Keys in `ready`, with their pools and since when.
    waiting: BTreeMap<K, (String, Instant)>,
    /// Keys that are being worked on, with their pools and since when.
    active: BTreeMap<K, (String, Instant)>,
    /// Keys added while active, and when: once more afterwards.
    dirty: BTreeMap<K, Instant>,
    pub(super) failures: BTreeMap<K, u32>,
    /// Passes in a row that ended with steps left.
    pub(super) unsettled: BTreeMap<K, u32>,
    /// When keys are looked at again although nothing changes.
    pub(super) looks: BTreeMap<K, Instant>,
    /// The last failure of each pool: of which object, why and when.
    errors: BTreeMap<String, (String, String, Instant)>,
    /// The pool that was served last: the next one is served next.
    last: String,
}

/// What adding a key came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// There is something new to take.
    New,
    /// It waits in another pool now.
    Moved,
    /// It is being worked on, and will be once more.
    Later,
    /// It waited already.
    Known,
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
            dirty: BTreeMap::new(),
            failures: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            looks: BTreeMap::new(),
            errors: BTreeMap::new(),
            last: String::new(),
        }
    }

    pub(super) fn add(&mut self, key: K, pool: Option<Pool>) -> Added {
        if self.active.contains_key(&key) {
            let known = self.dirty.contains_key(&key);
            self.dirty.entry(key).or_insert_with(Instant::now);
            return if known { Added::Known } else { Added::Later };
        }
        self.wait(key, pool, Instant::now())
    }

    /// A key that waits to be worked on since then.
    pub(super) fn wait(&mut self, key: K, pool: Option<Pool>, since: Instant) -> Added {
        let known = pool.is_some();
        let Pool { name, workers } = pool.unwrap_or_else(|| Pool::new(SHARED, usize::MAX));
        let added = match self.waiting.get(&key).cloned() {
            Some((before, _)) if before == name => return Added::Known,
            // What is to be done with it has changed: it must not wait behind the keys of another pool.
            Some((before, since)) => {
                self.leave(&key, &before);
                self.waiting.insert(key.clone(), (name.clone(), since));
                Added::Moved
            }
            None => {
                self.waiting.insert(key.clone(), (name.clone(), since));
                Added::New
            }
        };
        let line = self.ready.entry(name).or_insert(Line { keys: VecDeque::new(), workers, busy: 0 });
        if known {
            line.workers = workers;
        }
        line.keys.push_back(key);
        added
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
        let waiting = std::mem::take(&mut self.waiting);
        for key in lines.into_values().flat_map(|line| line.keys) {
            let since = waiting.get(&key).map_or_else(Instant::now, |(_, since)| *since);
            let pool = pool_of(&key);
            self.wait(key, Some(pool), since);
        }
    }

    /// The next key of a pool that has a worker to spare, and since when it waits; pools take turns.
    pub(super) fn take(&mut self) -> Option<(K, Instant)> {
        let free = |line: &Line<K>| !line.keys.is_empty() && line.busy < line.workers;
        let after = (std::ops::Bound::Excluded(self.last.clone()), std::ops::Bound::Unbounded);
        let turn = self.ready.range(after).chain(self.ready.iter()).find(|(_, line)| free(line));
        let pool = turn.map(|(pool, _)| pool.clone())?;
        let line = self.ready.get_mut(&pool)?;
        let key = line.keys.pop_front()?;
        line.busy += 1;
        self.last.clone_from(&pool);
        let since = self.waiting.remove(&key).map_or_else(Instant::now, |(_, since)| since);
        self.active.insert(key.clone(), (pool, Instant::now()));
        Some((key, since))
    }

    /// When the key was added again meanwhile, if it was.
    pub(super) fn finish(&mut self, key: &K) -> Option<Instant> {
        if let Some((pool, _)) = self.active.remove(key)
            && let Some(line) = self.ready.get_mut(&pool)
        {
            line.busy -= 1;
            if line.busy == 0 && line.keys.is_empty() {
                self.ready.remove(&pool);
            }
        }
        self.dirty.remove(key)
    }

    /// Notes why the work on a key failed.
    pub(super) fn failed(&mut self, key: &K, object: String, message: String) {
        let pool = self.active.get(key).map_or(SHARED, |(pool, _)| pool.as_str()).to_owned();
        self.errors.insert(pool, (object, message, Instant::now()));
    }

    /// What waits and what is being worked on, by pool. `pool_of` finds the pools of keys that wait for another attempt.
    pub(super) fn operations(&self, pool_of: impl Fn(&K) -> String) -> Vec<Operation> {
        let mut pools: BTreeMap<String, Operation> = BTreeMap::new();
        for (pool, since) in self.waiting.values() {
            let one = pools.entry(pool.clone()).or_default();
            one.depth += 1;
            one.oldest_seconds = one.oldest_seconds.max(since.elapsed().as_secs_f64());
        }
        for (pool, since) in self.active.values() {
            let one = pools.entry(pool.clone()).or_default();
            one.in_flight += 1;
            one.longest_seconds = one.longest_seconds.max(since.elapsed().as_secs_f64());
        }
        let rests = |key: &&K| !self.waiting.contains_key(*key) && !self.active.contains_key(*key);
        for key in self.failures.keys().filter(rests) {
            pools.entry(pool_of(key)).or_default().failing += 1;
        }
        for (pool, (object, message, at)) in &self.errors {
            let (object, message, seconds_ago) =
                (object.clone(), message.clone(), at.elapsed().as_secs_f64());
            pools.entry(pool.clone()).or_default().last_error =
                Some(LastError { object, message, seconds_ago });
        }
        let named = |(operation, one): (String, Operation)| Operation { operation, ..one };
        pools.into_iter().map(named).collect()
    }

    /// Keys that wait, as upstream counts them: with those that were added while they are worked on.
    pub(super) fn depth(&self) -> usize {
        self.waiting.len() + self.dirty.len()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.active.len()
    }
}
