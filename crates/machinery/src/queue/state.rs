//! Which keys wait, in which pool, and which are being worked on.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::Pool;

/// Where keys without a pool of their own go.
const SHARED: &str = "";

pub(super) struct State<K> {
    /// Keys to work on, by pool.
    ready: BTreeMap<String, Line<K>>,
    /// Keys in `ready`, with their pools and since when.
    waiting: BTreeMap<K, (String, Instant)>,
    /// Keys that are being worked on, with their pools.
    active: BTreeMap<K, String>,
    /// Keys added while active, and when: once more afterwards.
    dirty: BTreeMap<K, Instant>,
    pub(super) failures: BTreeMap<K, u32>,
    /// Passes in a row that ended with steps left.
    pub(super) unsettled: BTreeMap<K, u32>,
    /// When keys are looked at again although nothing changes.
    pub(super) looks: BTreeMap<K, Instant>,
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
        self.active.insert(key.clone(), pool);
        Some((key, since))
    }

    /// When the key was added again meanwhile, if it was.
    pub(super) fn finish(&mut self, key: &K) -> Option<Instant> {
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

    /// Keys that wait, as upstream counts them: with those that were added while they are worked on.
    pub(super) fn depth(&self) -> usize {
        self.waiting.len() + self.dirty.len()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.active.len()
    }
}
