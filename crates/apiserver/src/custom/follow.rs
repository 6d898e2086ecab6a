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
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::definition::{Definition, Names, Spec, TABLE, status};
use super::kind::Kinds;
use crate::core::Core;
use crate::metadata;
use crate::registry::Registry;
use crate::status::Status;
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
    turn: tokio::sync::Mutex<()>,
    built: Mutex<BTreeMap<String, Built>>,
}

struct Built {
    uid: String,
    spec: Spec,
    names: Names,
    terminating: bool,
    kinds: Kinds,
    /// Ends the watches of its kinds.
    gone: CancellationToken,
}

impl Definitions {
    pub fn new(base: Registry) -> Self {
        Self { base, turn: tokio::sync::Mutex::default(), built: Mutex::default() }
    }

    /// The kinds of this build and of these definitions. Kinds that did not change are the same as before; watches of
    /// those that did end.
    fn registry(&self, definitions: &[Definition]) -> Registry {
        let mut registry = self.base.clone();
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *built);
        for definition in definitions.iter().filter(|definition| self.is_served(definition)) {
            let name = definition.metadata.name.clone();
            let now = match before.remove(&name) {
                Some(old)
                    if old.is_of(definition) && old.terminating == definition.is(status::TERMINATING) =>
                {
                    old
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
        let table = definition.table();
        self.base.kinds().any(|kind| *kind.info().table == *table)
    }
}

impl Built {
    fn of(definition: &Definition, gone: CancellationToken) -> Self {
        Self {
            uid: definition.metadata.uid.clone(),
            spec: definition.spec.clone(),
            names: definition.status.accepted_names.clone(),
            terminating: definition.is(status::TERMINATING),
            kinds: Kinds::of(definition, &gone),
            gone,
        }
    }

    fn is_of(&self, definition: &Definition) -> bool {
        self.uid == definition.metadata.uid
            && self.names == definition.status.accepted_names
            && self.spec == definition.spec
    }
}

/// One definition as it is stored, and as it should be.
struct Entry {
    stored: Arc<Stored>,
    object: Value,
    definition: Definition,
}

/// Does all that the stored definitions ask for. Returns where objects are left that somebody holds.
pub async fn catch_up(core: &Core) -> Result<Vec<Arc<str>>, Status> {
    let _turn = core.definitions.turn.lock().await;
    for _ in 0..ATTEMPTS_MAX {
        let entries = settled(core)?;
        // Served first and announced second: whoever hears of a kind can use it.
        let definitions: Vec<Definition> = entries.iter().map(|entry| entry.definition.clone()).collect();
        core.set_registry(core.definitions.registry(&definitions));
        let mut changed = false;
        let mut held = Vec::new();
        for entry in entries {
            if entry.object != entry.stored.value() {
                put(core, &entry.stored, entry.object).await?;
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
fn settled(core: &Core) -> Result<Vec<Entry>, Status> {
    let page = core.store.page(TABLE, None, None, None, usize::MAX).map_err(Status::internal)?;
    let mut stored = page.objects;
    stored.sort_by_key(|object| object.version);
    let parse = |object: &Arc<Stored>| {
        let value = object.value();
        Definition::parse(&value).map(|definition| (object.clone(), value, definition))
    };
    let all: Vec<(Arc<Stored>, Value, Definition)> = stored.iter().filter_map(parse).collect();
    let mut definitions: Vec<Definition> = all.iter().map(|(.., definition)| definition.clone()).collect();
    let mut entries = Vec::with_capacity(all.len());
    for (index, (stored, value, _)) in all.into_iter().enumerate() {
        let object = status::settled(&value, &definitions, core.clock.now()).unwrap_or(value);
        // Names that one gets are taken for the next.
        definitions[index] = Definition::parse(&object).unwrap_or_default();
        entries.push(Entry { stored, object, definition: definitions[index].clone() });
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
            let cleaning = status::cleaning(&entry.object, core.clock.now());
            if cleaning == entry.object {
                return Ok(Cleaned::Held(table));
            }
            put(core, &entry.stored, cleaning).await?;
            return Ok(Cleaned::Changed);
        }
    }
    put(core, &entry.stored, status::cleaned(&entry.object)).await?;
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
