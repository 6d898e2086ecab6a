//! How the set of kinds follows the definitions in the store.
//!
//! Everything is decided from what is stored, never from the request that changed it, so that several servers on one
//! store come to the same kinds, and so does one that starts anew. A request that writes a definition also catches up
//! before it is answered: its client can use the kind at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_api::keys::CUSTOM_RESOURCE_CLEANUP;
use futures::future::select_all;
use serde_json::Value;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::definition::{Definition, TABLE, status};
use super::kind::Kinds;
use super::parsed::Parsed;
use crate::core::Core;
use crate::metadata;
use crate::registry::Registry;
use crate::status::{Resource, Status};
use crate::store::{Change, Expect, Stored, Write, WriteError};
use crate::verbs;

/// Others may write in between this often before it is given up until the next change.
const ATTEMPTS_MAX: usize = 1000;
/// After a failure of the store.
const RETRY: Duration = Duration::from_secs(1);

/// The kinds of this build, and those that definitions made.
pub struct Definitions {
    base: Registry,
    /// Names are given out one definition at a time.
    turn: tokio::sync::Mutex<Parsed>,
    built: Mutex<BTreeMap<String, Built>>,
    /// Writes of custom resources that are under way, each by a kind that was served when it began.
    writes: Arc<RwLock<()>>,
}

/// As long as this is held, the definition of no kind that was served when it was taken goes on to its end.
pub type Writing = OwnedRwLockReadGuard<()>;

struct Built {
    definition: Arc<Definition>,
    kinds: Kinds,
    /// Ends the watches of its kinds.
    gone: CancellationToken,
}

impl Definitions {
    pub fn new(base: Registry) -> Self {
        Self { base, turn: Default::default(), built: Mutex::default(), writes: Arc::default() }
    }

    /// To be taken before the kind is looked up, and held until its object is stored or refused.
    pub async fn writing(&self) -> Writing {
        self.writes.clone().read_owned().await
    }

    /// Returns once all writes are over that may be by kinds that are not served any more.
    async fn settle_writes(&self) {
        drop(self.writes.write().await);
    }

    /// The kinds of this build and of these definitions. Kinds that did not change are the same as before; watches of
    /// those that did end.
    fn registry<'a>(&self, definitions: impl Iterator<Item = &'a Arc<Definition>>) -> Registry {
        let mut registry = self.base.clone();
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *built);
        for definition in definitions.filter(|definition| self.is_served(definition)) {
            let name = definition.metadata.name.clone();
            let now = match before.remove(&name) {
                Some(old) if old.is_of(definition) && old.ends_like(definition) => {
                    Built { definition: definition.clone(), ..old }
                }
                // Watches go on and see its objects go.
                Some(old) if old.is_of(definition) => Built::of(definition, old.gone),
                Some(old) => {
                    old.gone.cancel();
                    Built::of(definition, CancellationToken::new())
                }
                None => Built::of(definition, CancellationToken::new()),
            };
            for kind in &now.kinds.served {
                registry.add_kind(kind.clone());
            }
            built.insert(name, now);
        }
        before.values().for_each(|old| old.gone.cancel());
        registry
    }

    fn is_served(&self, definition: &Definition) -> bool {
        let accepted = definition.is(status::NAMES_ACCEPTED) || definition.is(status::ESTABLISHED);
        accepted && !self.overlaps(definition)
    }

    /// A kind of this build stays what it is, whatever somebody defines under its name.
    fn overlaps(&self, definition: &Definition) -> bool {
        let Definition { spec, .. } = definition;
        let resource = Resource { group: &spec.group, plural: &spec.names.plural };
        self.base.kinds().any(|kind| kind.info().resource() == resource)
    }
}

impl Built {
    fn of(definition: &Arc<Definition>, gone: CancellationToken) -> Self {
        Self { definition: definition.clone(), kinds: Kinds::of(definition, &gone), gone }
    }

    fn is_of(&self, definition: &Arc<Definition>) -> bool {
        let (old, new) = (&self.definition, definition);
        // Schemas are large: most definitions are those of the last time.
        Arc::ptr_eq(old, new)
            || (old.metadata.uid == new.metadata.uid
                && old.status.accepted_names == new.status.accepted_names
                && old.spec == new.spec)
    }

    fn ends_like(&self, definition: &Definition) -> bool {
        self.definition.is(status::TERMINATING) == definition.is(status::TERMINATING)
    }
}

/// One definition as it is stored, and as it should be.
struct Entry {
    stored: Arc<Stored>,
    /// What it should be, if that is something else.
    wanted: Option<Value>,
    definition: Arc<Definition>,
}

/// Does all that the stored definitions ask for. Returns where objects are left that somebody holds.
pub async fn catch_up(core: &Core) -> Result<Vec<Arc<str>>, Status> {
    let mut parsed = core.definitions.turn.lock().await;
    for _ in 0..ATTEMPTS_MAX {
        let entries = settled(core, &mut parsed)?;
        // Served first and announced second: whoever hears of a kind can use it.
        let definitions = entries.iter().map(|entry| &entry.definition);
        core.set_registry(core.definitions.registry(definitions));
        // Objects of a kind that goes are counted when no more can come.
        core.definitions.settle_writes().await;
        let mut changed = false;
        let mut held = Vec::new();
        for entry in entries {
            if let Some(wanted) = entry.wanted {
                put(core, &entry.stored, wanted).await?;
                changed = true;
            } else if is_ending(&entry.definition) {
                match clean(core, &entry).await? {
                    Cleaned::Changed => changed = true,
                    Cleaned::Held(table) => held.push(table),
                }
            }
        }
        if !changed {
            return Ok(held);
        }
    }
    Err(Status::internal("definitions of custom resources change too fast to follow"))
}

/// All definitions with the status each should have, the oldest write first.
fn settled(core: &Core, parsed: &mut Parsed) -> Result<Vec<Entry>, Status> {
    let page = core.store.page(TABLE, None, None, None, usize::MAX).map_err(Status::internal)?;
    let mut stored = page.objects;
    stored.sort_by_key(|object| object.version);
    let (stored, mut definitions) = parsed.all(stored);
    let mut entries = Vec::with_capacity(stored.len());
    for (index, stored) in stored.into_iter().enumerate() {
        let wanted = status::settled(|| stored.value(), &definitions[index], &definitions, core.clock.now());
        // Names that one gets are taken for the next.
        if let Some(wanted) = &wanted {
            definitions[index] = Arc::new(Definition::parse(wanted).unwrap_or_default());
        }
        entries.push(Entry { stored, wanted, definition: definitions[index].clone() });
    }
    Ok(entries)
}

fn is_ending(definition: &Definition) -> bool {
    definition.metadata.deletion_timestamp.is_some()
        && definition.metadata.finalizers.iter().any(|name| name == CUSTOM_RESOURCE_CLEANUP)
}

enum Cleaned {
    Changed,
    Held(Arc<str>),
}

/// Deletes the objects of a definition that goes, and lets it go once there are none.
async fn clean(core: &Core, entry: &Entry) -> Result<Cleaned, Status> {
    let definition = &entry.definition;
    let table: Arc<str> = definition.table().into();
    let never_served = !definition.is(status::ESTABLISHED) || core.definitions.overlaps(definition);
    if !never_served && let Some(kind) = Kinds::of(definition, &CancellationToken::new()).storage {
        let left = verbs::remove_all(core, kind.as_ref()).await?;
        if left > 0 {
            let object = entry.stored.value();
            let cleaning = status::cleaning(&object, core.clock.now());
            if cleaning == object {
                return Ok(Cleaned::Held(table));
            }
            put(core, &entry.stored, cleaning).await?;
            return Ok(Cleaned::Changed);
        }
    }
    put(core, &entry.stored, status::cleaned(&entry.stored.value())).await?;
    Ok(Cleaned::Changed)
}

/// Writes a definition back; one that is to go and that nothing holds goes. Whoever wrote in between is looked at
/// again.
async fn put(core: &Core, stored: &Stored, object: Value) -> Result<(), Status> {
    let ended = metadata::deleting(&object) && metadata::finalizers(&object).is_empty();
    let change = if ended { Change::Delete } else { Change::Put(object) };
    let expect = Expect::Version(stored.version);
    let write = Write { resource: TABLE.into(), key: stored.key.clone(), expect, change };
    match core.store.write(write).await {
        Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
        Err(WriteError::Unavailable(why)) => Err(Status::store(why)),
    }
}

/// Catches up whenever definitions change, or objects that hold one go, until `stop`.
pub async fn follow(core: &Core, stop: CancellationToken) {
    loop {
        // From before the look, so that nothing that happens meanwhile is missed.
        let version = core.store.version();
        let change = async {
            match catch_up(core).await {
                Ok(held) => changed(core, version, held).await,
                Err(status) => {
                    tracing::error!(
                        why = status.message,
                        "custom resources do not follow their definitions; trying again"
                    );
                    sleep(RETRY).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = change => {}
        }
    }
}

/// Returns once something happened in one of the tables after a version. Lost history is something that happened.
async fn changed(core: &Core, version: u64, held: Vec<Arc<str>>) {
    let tables = std::iter::once(Arc::from(TABLE)).chain(held);
    let mut watchers = Vec::new();
    for table in tables {
        match core.store.watch(&table, version) {
            Ok(watcher) => watchers.push(watcher),
            Err(_) => return,
        }
    }
    let _ = select_all(watchers.iter_mut().map(|watcher| Box::pin(watcher.next()))).await;
}
