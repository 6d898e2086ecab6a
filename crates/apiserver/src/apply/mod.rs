//! Server-side apply, and the record of who set which field that it rests on.
//!
//! Pure functions: the live object and what a client sends in, the new object or its conflicts out. The rules are
//! those of upstream's structured merge: lists and maps divide as the schema says, a field that an applier no longer
//! names goes unless somebody else has it, and a field of another applier is a conflict unless forced.

mod compare;
mod managers;
mod set;
mod shape;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use compare::{compare, fields, merge, remove};
use managers::Managers;
pub use managers::{Manager, Operation};
use set::Set;
use shape::Kind;

/// Fields that the server keeps and nobody owns.
const UNOWNED: [&[&str]; 11] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
    &["metadata", "deletionTimestamp"],
];

/// One field that another manager has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub manager: Manager,
    pub time: String,
    /// As people read it, e.g. `.spec.replicas`.
    pub field: String,
}

/// A write and what its subresource may touch.
pub struct Writer<'a> {
    pub manager: Manager,
    /// Branches that this write cannot change, e.g. `status` of a plain update.
    pub ignored: &'a [&'a [&'a str]],
    /// RFC 3339, whole seconds.
    pub now: &'a str,
}

impl Writer<'_> {
    fn owned(&self, set: Set) -> Set {
        set.prune(&UNOWNED).prune(self.ignored).drop_bare_metadata()
    }
}

fn root(object: &Value) -> Kind {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    Kind::root(text("apiVersion"), text("kind"))
}

/// Records a create (`old` is null) or update. The new object's own record counts: a client may drop entries, and an
/// empty list means that it wants none kept.
pub fn track(old: &Value, mut new: Value, writer: &Writer<'_>) -> Value {
    let sent = new["metadata"]["managedFields"].clone();
    if sent == json!([{}]) || sent == json!([]) && !old.is_null() {
        Managers::default().write(&mut new);
        return new;
    }
    let mut managers = match sent.is_null() {
        true => Managers::read(old),
        false => Managers::read(&new),
    };
    let kind = root(&new);
    let difference = compare(old, &new, kind);
    let changed = writer.owned(difference.changed());
    for entry in managers.0.iter_mut().filter(|entry| entry.manager != writer.manager) {
        entry.set = entry.set.without(&changed).without(&difference.removed);
    }
    let mine = managers.get(&writer.manager).cloned().unwrap_or_default();
    let mine = mine.union(&changed).without(&difference.removed);
    managers.put(&writer.manager, mine, writer.now);
    managers.write(&mut new);
    new
}

/// The object after an apply. `live` is null if there is none.
pub fn apply(live: &Value, config: &Value, writer: &Writer<'_>, force: bool) -> Result<Value, Vec<Conflict>> {
    let kind = root(config);
    let mut managers = Managers::read(live);
    let before = managers.get(&writer.manager).cloned();
    let set = writer.owned(fields(config, kind));
    managers.put(&writer.manager, set, writer.now);

    let merged = if live.is_null() { config.clone() } else { merge(live, config, kind) };
    let mut new = match before {
        None => merged,
        Some(before) => {
            let everyone = managers.union();
            remove(&merged, kind, &before.without(&everyone), &everyone)
        }
    };

    let difference = compare(live, &new, kind);
    let changed = writer.owned(difference.changed());
    let conflicts = conflicts(&managers, &changed, writer);
    if !conflicts.is_empty() && !force {
        return Err(conflicts);
    }
    for entry in managers.0.iter_mut().filter(|entry| entry.manager != writer.manager) {
        entry.set = entry.set.without(&changed).without(&difference.removed);
    }
    managers.write(&mut new);
    Ok(new)
}

fn conflicts(managers: &Managers, changed: &Set, writer: &Writer<'_>) -> Vec<Conflict> {
    let mut found = Vec::new();
    for entry in managers.0.iter().filter(|entry| entry.manager != writer.manager) {
        for path in entry.set.intersection(changed).paths() {
            found.push(Conflict {
                manager: entry.manager.clone(),
                time: entry.time.clone(),
                field: set::print(&path),
            });
        }
    }
    found
}
