//! Server-side apply, and the record of who set which field that it rests on.
//!
//! Pure functions: the live object and what a client sends in, the new object and its record or conflicts out. The
//! rules are those of upstream's structured merge: lists and maps divide as the schema says, a field that an applier
//! no longer names goes unless somebody else has it, and a field of another applier is a conflict unless forced.
//!
//! The record travels beside the object and is put into it last, so that rules and admission never carry it around.

mod check;
mod compare;
mod conflict;
mod fields;
mod last_applied;
mod managers;
mod merge;
mod set;
mod shape;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use check::check;
use compare::{Difference, compare};
pub use conflict::Conflicts;
use fields::{fields, remove, with_messages};
use managers::{Entry, Managers};
pub use managers::{Manager, Operation};
use merge::merge;
use set::Set;
pub use shape::Kind;

/// Fields that the server keeps and nobody owns; `metadata` itself is in every object.
const UNOWNED: [&[&str]; 11] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Owns what an object had before anybody's fields were recorded.
const BEFORE: &str = "before-first-apply";

/// A write and what its subresource may touch.
pub struct Writer<'a> {
    pub manager: Manager,
    /// Branches that this write cannot change, e.g. `status` of a plain update.
    pub ignored: &'a [&'a [&'a str]],
    /// RFC 3339, whole seconds.
    pub now: &'a str,
}

impl Writer<'_> {
    /// Upstream does not remember when somebody scaled: that is tracked on another object, whose times are not kept.
    fn time(&self) -> Option<String> {
        (self.manager.subresource != "scale").then(|| self.now.to_owned())
    }

    fn difference(&self, old: &Value, new: &Value, kind: Kind<'_>) -> Difference {
        let mut difference = compare(old, new, kind);
        difference.cut(self.ignored);
        difference
    }
}

fn without_unowned(mut set: Set) -> Set {
    for branch in UNOWNED {
        set.cut(branch);
    }
    set.remove("metadata");
    set
}

/// The record after a create (`old` is null) or an update; `None` if nothing is to be recorded.
///
/// `sent` is the record that came with the new object: a client may drop entries, and an empty list, or one empty
/// entry, means that it wants none kept.
pub fn track(
    old: &Value,
    new: &Value,
    sent: Option<Value>,
    kind: Kind<'_>,
    writer: &Writer<'_>,
) -> Option<Value> {
    let live = &old["metadata"]["managedFields"];
    let difference = writer.difference(old, new, kind);
    let managers = match sent {
        // The usual case: the client sent back what it was given.
        Some(sent) if sent == *live && difference.is_empty() => return Some(sent),
        Some(sent) if sent == *live => Managers::stored(sent),
        sent => chosen(live, sent.as_ref(), writer),
    };
    // Whoever switched recording off stays without until the next apply.
    if managers.is_empty() && !old.is_null() {
        return None;
    }
    updated(managers, difference, writer).write()
}

/// Which record counts. One that is malformed does not, so that no client can break it by accident.
fn chosen(live: &Value, sent: Option<&Value>, writer: &Writer<'_>) -> Managers {
    let stored = || Managers::stored(live.clone());
    let Some(sent) = sent.filter(|_| writer.manager.subresource.is_empty()) else { return stored() };
    if is_reset(sent) {
        return Managers::default();
    }
    Managers::client(sent).filter(|managers| !managers.is_empty()).unwrap_or_else(stored)
}

fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

fn updated(mut managers: Managers, difference: Difference, writer: &Writer<'_>) -> Managers {
    if difference.is_empty() {
        return managers;
    }
    for entry in &mut managers.0 {
        entry.set.subtract(&difference.changed);
        entry.set.subtract(&difference.removed);
    }
    let mine = without_unowned(difference.changed);
    // Somebody who only removes gains nothing, and its time stands.
    if !mine.is_empty() {
        let time = writer.time();
        match managers.get_mut(&writer.manager) {
            Some(entry) => {
                entry.set.add(&mine);
                entry.time = time;
            }
            None => managers.0.push(Entry { manager: writer.manager.clone(), time, set: mine }),
        }
    }
    managers.0.retain(|entry| !entry.set.is_empty());
    managers.fold_old();
    managers
}

/// What an apply leads to.
#[derive(Debug)]
pub struct Applied {
    pub object: Value,
    pub record: Option<Value>,
}

/// The object after an apply. `live` is null if there is none.
pub fn apply(
    live: &Value,
    config: &Value,
    kind: Kind<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Applied, Conflicts> {
    let managers = known(live, kind, writer);
    let attempt = |force| merged(live, config, managers.clone(), kind, writer, force);
    let mut applied = last_applied::adopt(live, kind, writer, force, attempt)?;
    last_applied::refresh(&mut applied.object, config, writer);
    Ok(applied)
}

/// Everybody who has set something, including before anything was recorded.
fn known(live: &Value, kind: Kind<'_>, writer: &Writer<'_>) -> Managers {
    let managers = Managers::stored(live["metadata"]["managedFields"].clone());
    if !managers.is_empty() || live.is_null() {
        return managers;
    }
    let manager = Manager { name: BEFORE.to_owned(), operation: Operation::Update, ..writer.manager.clone() };
    let before = Writer { manager, ignored: writer.ignored, now: writer.now };
    let difference = before.difference(&Value::Null, live, kind);
    updated(managers, difference, &before)
}

fn merged(
    live: &Value,
    config: &Value,
    mut managers: Managers,
    kind: Kind<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Applied, Conflicts> {
    let before = managers.get(&writer.manager).cloned();
    managers.0.retain(|entry| entry.manager != writer.manager);
    let mut set = fields(config, kind);
    for branch in writer.ignored {
        set.cut(branch);
    }

    let merged = if live.is_null() { config.clone() } else { merge(live, config, kind) };
    let object = match &before {
        None => merged,
        Some(before) => {
            let mut everyone = managers.union();
            everyone.add(&set);
            prune(merged, kind, &before.set, &everyone)
        }
    };

    let difference = writer.difference(live, &object, kind);
    let conflicts = Conflicts::find(&managers, &difference.changed);
    if !conflicts.is_empty() && !force {
        return Err(conflicts);
    }
    for entry in &mut managers.0 {
        entry.set.subtract(&difference.changed);
        entry.set.subtract(&difference.removed);
    }
    // The time is that of the last change; one who changes nothing has none.
    let time = match object == *live {
        true => before.and_then(|before| before.time),
        false => writer.time(),
    };
    let set = without_unowned(set);
    managers.0.push(Entry { manager: writer.manager.clone(), time, set });
    Ok(Applied { object, record: managers.write() })
}

/// Drops what this applier named before and names no longer, unless somebody else has it.
fn prune(merged: Value, kind: Kind<'_>, before: &Set, everyone: &Set) -> Value {
    let before = with_messages(before, kind);
    let all = with_messages(&fields(&merged, kind), kind);
    let named = |value: &Value| with_messages(&fields(value, kind), kind);
    // Without all that it named, then with what anybody owns again, then with what it never had.
    let mut kept = named(&remove(&merged, kind, before.tree()));
    kept.add(&with_messages(everyone, kind));
    let owned = remove(&merged, kind, all.clone().without(&kept).tree());
    let gone = all.without(&named(&owned)).intersection(&before);
    if gone.is_empty() { merged } else { remove(&merged, kind, gone.tree()) }
}
