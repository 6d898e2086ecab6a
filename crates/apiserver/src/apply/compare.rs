//! What a value consists of, and how two values differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::Set;
use super::shape::Kind;

/// Every field a value sets.
pub fn fields(value: &Value, kind: Kind) -> Set {
    let mut set = Set::default();
    collect(value, kind, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, kind: Kind, path: &mut Vec<String>, set: &mut Set) {
    match value {
        Value::Object(object) if kind.divides_objects() && !object.is_empty() => {
            for (name, value) in object {
                path.push(format!("f:{name}"));
                collect(value, kind.member(name), path, set);
                path.pop();
            }
        }
        Value::Array(items) if matches!(kind, Kind::List { .. }) && !items.is_empty() => {
            for (name, item) in elements(items, kind) {
                path.push(name);
                set.insert(path);
                if item.is_object() {
                    collect(item, kind.element(), path, set);
                }
                path.pop();
            }
        }
        _ => set.insert(path),
    }
}

/// Elements of a matched list by name, in order. Those without keys have none and are nobody's.
pub fn elements(items: &[Value], kind: Kind) -> Vec<(String, &Value)> {
    items.iter().filter_map(|item| Some((kind.name_element(item)?, item))).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub added: Set,
    pub modified: Set,
    pub removed: Set,
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// What the new value says differently.
    pub fn changed(&self) -> Set {
        self.added.clone().union(&self.modified)
    }
}

pub fn compare(old: &Value, new: &Value, kind: Kind) -> Difference {
    let mut difference = Difference::default();
    walk(Some(old), Some(new), kind, &mut Vec::new(), &mut difference);
    difference
}

fn walk(old: Option<&Value>, new: Option<&Value>, kind: Kind, path: &mut Vec<String>, out: &mut Difference) {
    let present = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    match (present(old), present(new)) {
        (false, false) => return,
        (false, true) => out.added.insert(path),
        (true, false) => out.removed.insert(path),
        (true, true) => {}
    }
    let members = |value: Option<&'_ Value>| -> Option<BTreeMap<String, Value>> { parts(value?, kind) };
    let (before, after) = (members(old), members(new));
    let divided = (before.is_some() || !present(old)) && (after.is_some() || !present(new));
    if !divided || (before.is_none() && after.is_none()) {
        if present(old) && present(new) && old != new {
            out.modified.insert(path);
        }
        return;
    }
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let inner = match name.strip_prefix("f:") {
            Some(field) => kind.member(field),
            None => kind.element(),
        };
        path.push(name.clone());
        walk(before.get(name), after.get(name), inner, path, out);
        path.pop();
    }
}

/// The parts of a value that divides; `None` for one that does not.
fn parts(value: &Value, kind: Kind) -> Option<BTreeMap<String, Value>> {
    match value {
        Value::Object(object) if kind.divides_objects() => {
            Some(object.iter().map(|(name, value)| (format!("f:{name}"), value.clone())).collect())
        }
        Value::Array(items) if matches!(kind, Kind::List { .. }) => {
            Some(elements(items, kind).into_iter().map(|(name, item)| (name, item.clone())).collect())
        }
        _ => None,
    }
}

/// The live object with everything that the applied one says.
pub fn merge(live: &Value, applied: &Value, kind: Kind) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if kind.divides_objects() => {
            Value::Object(merge_objects(live, applied, kind))
        }
        (Value::Array(live), Value::Array(applied)) if matches!(kind, Kind::List { .. }) => {
            Value::Array(merge_lists(live, applied, kind))
        }
        (_, applied) => applied.clone(),
    }
}

fn merge_objects(live: &Map<String, Value>, applied: &Map<String, Value>, kind: Kind) -> Map<String, Value> {
    let mut out = live.clone();
    for (name, value) in applied {
        let merged = match live.get(name) {
            Some(old) => merge(old, value, kind.member(name)),
            None => value.clone(),
        };
        out.insert(name.clone(), merged);
    }
    out
}

/// Applied elements take the order they are given in; live ones keep their place among them.
fn merge_lists(live: &[Value], applied: &[Value], kind: Kind) -> Vec<Value> {
    let (live, wanted) = (elements(live, kind), elements(applied, kind));
    let merged = |name: &String, value: &Value| {
        let old = live.iter().find(|(other, _)| other == name);
        old.map_or_else(|| value.clone(), |(_, old)| merge(old, value, kind.element()))
    };
    let mut rest = wanted.iter();
    let mut out = Vec::new();
    for (name, item) in &live {
        let Some(position) = wanted.iter().position(|(other, _)| other == name) else {
            out.push((*item).clone());
            continue;
        };
        // Everything the caller puts before this one comes before it.
        let sent = wanted.len() - rest.len();
        for (name, value) in rest.by_ref().take((position + 1).saturating_sub(sent)) {
            out.push(merged(name, value));
        }
    }
    out.extend(rest.map(|(name, value)| merged(name, value)));
    out
}

/// The object without these fields. A field goes with everything below it; what `keep` reaches stays.
pub fn remove(value: &Value, kind: Kind, unwanted: &Set, keep: &Set) -> Value {
    prune(value, kind, unwanted, keep, &mut Vec::new()).unwrap_or(Value::Null)
}

fn prune(value: &Value, kind: Kind, unwanted: &Set, keep: &Set, path: &mut Vec<String>) -> Option<Value> {
    if unwanted.has(path) && !keep.reaches(path) {
        return None;
    }
    if !unwanted.reaches(path) {
        return Some(value.clone());
    }
    match value {
        Value::Object(object) if kind.divides_objects() => {
            let mut out = Map::new();
            for (name, value) in object {
                path.push(format!("f:{name}"));
                if let Some(kept) = prune(value, kind.member(name), unwanted, keep, path) {
                    out.insert(name.clone(), kept);
                }
                path.pop();
            }
            // A container whose last owned field went was only there for it.
            let emptied = out.is_empty() && !object.is_empty() && !path.is_empty() && !keep.reaches(path);
            (!emptied).then_some(Value::Object(out))
        }
        Value::Array(items) if matches!(kind, Kind::List { .. }) => {
            let mut out = Vec::new();
            for (name, item) in elements(items, kind) {
                path.push(name);
                out.extend(prune(item, kind.element(), unwanted, keep, path));
                path.pop();
            }
            let emptied = out.is_empty() && !items.is_empty() && !keep.reaches(path);
            (!emptied).then_some(Value::Array(out))
        }
        other => Some(other.clone()),
    }
}
