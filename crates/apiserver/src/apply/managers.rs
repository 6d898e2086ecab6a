//! `metadata.managedFields`: who set which field, and how.

use serde_json::{Map, Value, json};

use super::set::Set;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Somebody who sets fields. The same name with another operation or subresource is somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub manager: Manager,
    pub time: String,
    pub set: Set,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers(pub Vec<Entry>);

/// More managers than this by update are folded into one.
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

impl Managers {
    /// Entries that are no sets are dropped: a broken record must not keep an object from being written.
    pub fn read(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        Self(entries.filter_map(read_entry).collect())
    }

    /// Puts the record into the object, in upstream's order: by operation, time and name.
    pub fn write(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.set.is_empty());
        self.fold_old();
        self.0.sort_by(|a, b| {
            let key = |e: &Entry| (e.manager.operation, e.time.clone(), e.manager.name.clone());
            key(a).cmp(&key(b))
        });
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        metadata.insert("managedFields".into(), self.0.iter().map(write_entry).collect());
    }

    /// The oldest updaters beyond the limit become one, so that an object cannot grow without bound.
    fn fold_old(&mut self) {
        let updaters =
            |all: &[Entry]| all.iter().filter(|e| e.manager.operation == Operation::Update).count();
        if updaters(&self.0) <= UPDATERS_MAX {
            return;
        }
        self.0.sort_by(|a, b| a.time.cmp(&b.time));
        let mut folded: Option<Entry> = None;
        while updaters(&self.0) >= UPDATERS_MAX {
            let Some(position) = self.0.iter().position(|e| e.manager.operation == Operation::Update) else {
                break;
            };
            let old = self.0.remove(position);
            let set = folded.take().map_or_else(Set::default, |entry| entry.set).union(&old.set);
            let manager = Manager { name: ANCIENT.into(), subresource: String::new(), ..old.manager };
            folded = Some(Entry { manager, time: old.time, set });
        }
        self.0.extend(folded);
    }

    pub fn get(&self, manager: &Manager) -> Option<&Set> {
        self.0.iter().find(|entry| entry.manager == *manager).map(|entry| &entry.set)
    }

    /// What anybody has set.
    pub fn union(&self) -> Set {
        self.0.iter().fold(Set::default(), |all, entry| all.union(&entry.set))
    }

    /// Replaces a manager's fields; the time moves only when they change.
    pub fn put(&mut self, manager: &Manager, set: Set, now: &str) {
        match self.0.iter_mut().find(|entry| entry.manager == *manager) {
            Some(entry) if entry.set == set => {}
            Some(entry) => {
                entry.set = set;
                now.clone_into(&mut entry.time);
            }
            None => self.0.push(Entry { manager: manager.clone(), time: now.to_owned(), set }),
        }
    }
}

fn read_entry(value: &Value) -> Option<Entry> {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let operation = match value["operation"].as_str()? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let manager = Manager {
        name: text("manager"),
        operation,
        api_version: text("apiVersion"),
        subresource: text("subresource"),
    };
    Some(Entry { manager, time: text("time"), set: Set::from_json(&value["fieldsV1"])? })
}

fn write_entry(entry: &Entry) -> Value {
    let mut out = Map::new();
    let mut put = |field: &str, value: Value| _ = out.insert(field.to_owned(), value);
    put("manager", entry.manager.name.as_str().into());
    put("operation", entry.manager.operation.word().into());
    put("apiVersion", entry.manager.api_version.as_str().into());
    put("time", entry.time.as_str().into());
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", entry.set.to_json());
    if !entry.manager.subresource.is_empty() {
        put("subresource", json!(entry.manager.subresource));
    }
    Value::Object(out)
}
