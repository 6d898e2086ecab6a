//! The live objects and the recent past of each kind, shared by the sequencer and all readers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use bowline_api::ObjectKey;
use tokio::sync::Notify;

use super::backend::Loaded;
use super::draft::Events;
use super::object::{Event, EventKind, Stored};

/// The version of an empty store. Not 0, which in requests means "whatever there is".
pub const FIRST_VERSION: u64 = 1;

/// Events whose encoded forms are kept for watchers that are on their way.
const HOT_EVENTS: usize = 256;

/// The past of a kind may become so many times longer than its limits while it is being read.
const HELD_TIMES: usize = 4;

/// How much of the past is kept for watchers that lag or come back, per kind.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub log_events: usize,
    /// Bytes of JSON: the bound that counts when objects are large.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { log_events: 20_000, log_bytes: 32 << 20 }
    }
}

/// State plus the means to wait for its next change.
pub struct Shared {
    state: RwLock<State>,
    /// Wakes whoever waits for a version of the whole store.
    moved: Notify,
    /// Why nothing can be written any more.
    trouble: Mutex<Option<String>>,
}

pub struct State {
    version: u64,
    /// The version at opening: nothing older can be replayed.
    opened: u64,
    limits: Limits,
    tables: BTreeMap<Arc<str>, Table>,
    /// What all live objects take together.
    bytes: u64,
    /// How often everything was replaced. Versions may be lower afterwards, so they cannot tell.
    epoch: u64,
}

/// One kind.
pub struct Table {
    pub objects: BTreeMap<ObjectKey, Arc<Stored>>,
    pub log: Log,
    /// Wakes the watchers of this kind, in the order in which they began to wait.
    pub woken: Arc<Notify>,
}

/// The recent events of a kind, oldest first.
pub struct Log {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    limits: Limits,
    /// Events up to and including this version are forgotten.
    floor: u64,
    readers: Arc<Readers>,
}

/// The versions from which the past of a kind is being read, with how many readers each has.
#[derive(Default)]
struct Readers(Mutex<BTreeMap<u64, usize>>);

impl Readers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oldest(&self) -> Option<u64> {
        self.lock().first_key_value().map(|(version, _)| *version)
    }
}

/// What happened after a version is kept while this is, as far as there is room for it: a client that reads slowly gets
/// to the end, and one that does not read costs no more than [`HELD_TIMES`] says.
pub struct PastHold {
    readers: Arc<Readers>,
    version: u64,
}

impl Drop for PastHold {
    fn drop(&mut self) {
        let mut readers = self.readers.lock();
        match readers.get(&self.version).map_or(0, |count| count.saturating_sub(1)) {
            0 => readers.remove(&self.version),
            left => readers.insert(self.version, left),
        };
    }
}

impl Shared {
    pub fn new(loaded: Loaded, limits: Limits) -> Self {
        let mut state = State { version: 0, opened: 0, limits, tables: BTreeMap::new(), bytes: 0, epoch: 0 };
        state.fill(loaded);
        Self { state: RwLock::new(state), moved: Notify::new(), trouble: Mutex::default() }
    }

    /// Starts over with other content. What happened in between is not known, so every watcher is told so.
    pub fn replace(&self, loaded: Loaded) {
        let woken: Vec<_> = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.fill(loaded);
            state.epoch += 1;
            state.tables.values().map(|table| table.woken.clone()).collect()
        };
        woken.iter().for_each(|notify| notify.notify_waiters());
        self.moved.notify_waiters();
    }

    /// For short reads; never held across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells whoever asks that writes fail, or that they go on.
    pub fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Makes durable events visible, all at once, and wakes whoever waits for them. Nothing else happened up to
    /// `version`.
    pub fn publish(&self, events: Events, version: u64) {
        let mut woken: BTreeMap<Arc<str>, Arc<Notify>> = BTreeMap::new();
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.version = state.version.max(version);
            for (resource, event) in events {
                let gone = event.previous.as_ref().map_or(0, |object| object.bytes());
                let new = if event.kind == EventKind::Deleted { 0 } else { event.object.bytes() };
                state.bytes = state.bytes.saturating_sub(gone) + new;
                let table = state.table_mut(&resource);
                woken.entry(resource).or_insert_with(|| table.woken.clone());
                table.apply(event);
            }
        }
        woken.values().for_each(|notify| notify.notify_waiters());
        self.moved.notify_waiters();
    }

    pub async fn reached(&self, version: u64) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Enlisted before looking, so that a publish in between is not missed.
            moved.as_mut().enable();
            if self.read().version >= version {
                return;
            }
            moved.await;
        }
    }

    /// Keeps the past of a kind after the current version. Nothing happened yet to a kind that is not known.
    pub fn hold_past(&self, resource: &str) -> Option<PastHold> {
        let state = self.read();
        let readers = state.tables.get(resource)?.log.readers.clone();
        let version = state.version;
        *readers.lock().entry(version).or_default() += 1;
        Some(PastHold { readers, version })
    }

    /// The wake-up of a kind, which may have no object yet.
    pub fn woken(&self, resource: &Arc<str>) -> Arc<Notify> {
        if let Some(table) = self.read().tables.get(resource) {
            return table.woken.clone();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.table_mut(resource).woken.clone()
    }
}

impl State {
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn counts(&self) -> Vec<(Arc<str>, usize)> {
        self.tables.iter().map(|(resource, table)| (resource.clone(), table.objects.len())).collect()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What all live objects take together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All live objects and the version at which they are so.
    pub fn contents(&self) -> Loaded {
        let of = |(resource, table): (&Arc<str>, &Table)| {
            table.objects.values().map(|object| (resource.clone(), object.clone())).collect::<Vec<_>>()
        };
        let objects = self.tables.iter().flat_map(of).collect();
        Loaded { version: self.version, objects, expiries: Vec::new() }
    }

    /// The shared text of a kind's name.
    pub fn name(&self, resource: &str) -> Arc<str> {
        self.tables.get_key_value(resource).map_or_else(|| resource.into(), |(name, _)| name.clone())
    }

    /// Forgets everything and takes this instead; whoever waits for a kind keeps waiting for it.
    fn fill(&mut self, loaded: Loaded) {
        self.version = loaded.version.max(FIRST_VERSION);
        self.opened = self.version;
        self.bytes = 0;
        for table in self.tables.values_mut() {
            table.objects.clear();
            table.log = Log::new(self.opened, self.limits);
        }
        for (resource, object) in loaded.objects {
            self.bytes += object.bytes();
            self.table_mut(&resource).objects.insert(object.key.clone(), object);
        }
    }

    pub fn table(&self, resource: &str) -> Option<&Table> {
        self.tables.get(resource)
    }

    pub fn object(&self, resource: &str, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.tables.get(resource)?.objects.get(key).cloned()
    }

    /// The oldest version from which a kind can be replayed.
    pub fn floor(&self, resource: &str) -> u64 {
        self.tables.get(resource).map_or(self.opened, |table| table.log.floor)
    }

    fn table_mut(&mut self, resource: &Arc<str>) -> &mut Table {
        let (floor, limits) = (self.opened, self.limits);
        self.tables.entry(resource.clone()).or_insert_with(|| Table {
            objects: BTreeMap::new(),
            log: Log::new(floor, limits),
            woken: Arc::new(Notify::new()),
        })
    }
}

impl Table {
    fn apply(&mut self, event: Arc<Event>) {
        match event.kind {
            EventKind::Deleted => {
                self.objects.remove(&event.object.key);
            }
            EventKind::Added | EventKind::Modified => {
                self.objects.insert(event.object.key.clone(), event.object.clone());
            }
        }
        self.log.push(event);
    }
}

impl Log {
    fn new(floor: u64, limits: Limits) -> Self {
        Self { events: VecDeque::new(), bytes: 0, limits, floor, readers: Arc::default() }
    }

    fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.object.json.len();
        self.events.push_back(event);
        // Whoever keeps up has seen it; whoever does not makes it again.
        if let Some(seen) = self.events.len().checked_sub(HOT_EVENTS).and_then(|at| self.events.get(at)) {
            seen.object.forget_binary();
        }
        let held = self.readers.oldest();
        while self.is_over(1) {
            let wanted = |oldest: &Arc<Event>| held.is_some_and(|held| oldest.version > held);
            if self.events.front().is_some_and(wanted) && !self.is_over(HELD_TIMES) {
                return;
            }
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.object.json.len();
            self.floor = oldest.version;
        }
    }

    fn is_over(&self, times: usize) -> bool {
        let Limits { log_events, log_bytes } = self.limits;
        self.events.len() > log_events.saturating_mul(times)
            || (self.bytes > log_bytes.saturating_mul(times) && self.events.len() > 1)
    }

    /// Events after a version, oldest first.
    pub fn after(&self, version: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.version <= version);
        self.events.range(start..)
    }
}
