//! `metadata.managedFields`: who set which field, and how.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

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
#[derive(Debug, Clone)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
}

impl Manager {
    /// An applier stays the same when it moves to another version.
    fn identity(&self) -> (&str, Operation, &str, Option<&str>) {
        let version = (self.operation == Operation::Update).then_some(self.api_version.as_str());
        (&self.name, self.operation, &self.subresource, version)
    }
}

impl PartialEq for Manager {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub manager: Manager,
    /// Upstream leaves it out of entries that changed nothing.
    pub time: Option<String>,
    pub set: Set,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Managers(pub Vec<Entry>);

/// More managers than this by update are folded.
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

impl Managers {
    /// From what is stored, which is what [`Managers::write`] wrote.
    pub fn stored(record: Value) -> Self {
        let Value::Array(entries) = record else { return Self::default() };
        Self(entries.into_iter().filter_map(stored_entry).collect())
    }

    /// From a client. `None` if any of it is no record of fields.
    pub fn client(record: &Value) -> Option<Self> {
        let entries: Vec<Entry> = record.as_array()?.iter().map(client_entry).collect::<Option<_>>()?;
        // The last one counts of several by the same manager.
        let last: BTreeMap<_, usize> =
            entries.iter().enumerate().map(|(at, entry)| (entry.manager.identity(), at)).collect();
        let kept: BTreeSet<usize> = last.into_values().collect();
        let entries = entries.into_iter().enumerate().filter(|(at, _)| kept.contains(at));
        Some(Self(entries.map(|(_, entry)| entry).collect()))
    }

    /// The record, in upstream's order; `None` if there is nothing to say.
    pub fn write(mut self) -> Option<Value> {
        self.0.retain(|entry| !entry.set.is_empty());
        self.0.sort_by(|a, b| {
            let key = |entry: &Entry| {
                let Manager { name, operation, api_version, subresource } = &entry.manager;
                (*operation, entry.time.clone(), name.clone(), api_version.clone(), subresource.clone())
            };
            key(a).cmp(&key(b))
        });
        (!self.0.is_empty()).then(|| self.0.into_iter().map(write_entry).collect())
    }

    /// The oldest updaters beyond the limit become one for each version, so that an object cannot grow without bound.
    pub fn fold_old(&mut self) {
        let is_updater = |entry: &Entry| entry.manager.operation == Operation::Update;
        let mut excess = self.0.iter().filter(|entry| is_updater(entry)).count().saturating_sub(UPDATERS_MAX);
        if excess == 0 {
            return;
        }
        let (mut updaters, mut kept): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.0).into_iter().partition(is_updater);
        updaters.sort_by(|a, b| (&a.time, &a.manager.name).cmp(&(&b.time, &b.manager.name)));
        // Where the first of each version stands among those that stay.
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        for entry in updaters {
            let version = entry.manager.api_version.clone();
            match first.get(&version) {
                Some(position) if excess > 0 => {
                    let bucket: &mut Entry = &mut kept[*position];
                    ANCIENT.clone_into(&mut bucket.manager.name);
                    bucket.manager.subresource.clear();
                    bucket.set.add(&entry.set);
                    bucket.time = entry.time;
                    excess -= 1;
                }
                _ => {
                    first.entry(version).or_insert(kept.len());
                    kept.push(entry);
                }
            }
        }
        self.0 = kept;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, manager: &Manager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager == *manager)
    }

    pub fn get_mut(&mut self, manager: &Manager) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.manager == *manager)
    }

    /// What anybody has set.
    pub fn union(&self) -> Set {
        let mut all = Set::default();
        for entry in &self.0 {
            all.add(&entry.set);
        }
        all
    }
}

fn stored_entry(entry: Value) -> Option<Entry> {
    let Value::Object(mut fields) = entry else { return None };
    let manager = read_manager(&mut |field| match fields.remove(field) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    })?;
    let time = fields.remove("time").and_then(|time| time.as_str().map(str::to_owned));
    let set = Set::from_stored(fields.remove("fieldsV1").unwrap_or_default());
    Some(Entry { manager, time, set })
}

fn client_entry(entry: &Value) -> Option<Entry> {
    let mut text = |field: &str| entry[field].as_str().map(str::to_owned);
    let manager = read_manager(&mut text).filter(|manager| !manager.api_version.is_empty())?;
    if entry["fieldsType"] != "FieldsV1" {
        return None;
    }
    let set = match &entry["fieldsV1"] {
        Value::Null => Set::default(),
        fields => Set::from_client(fields)?,
    };
    Some(Entry { manager, time: text("time"), set })
}

fn read_manager(text: &mut dyn FnMut(&str) -> Option<String>) -> Option<Manager> {
    let operation = match text("operation")?.as_str() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let mut plain = |field: &str| text(field).unwrap_or_default();
    Some(Manager {
        name: plain("manager"),
        operation,
        api_version: plain("apiVersion"),
        subresource: plain("subresource"),
    })
}

fn write_entry(entry: Entry) -> Value {
    let mut out = Map::new();
    let mut put = |field: &str, value: Value| _ = out.insert(field.to_owned(), value);
    let Manager { name, operation, api_version, subresource } = entry.manager;
    if !name.is_empty() {
        put("manager", name.into());
    }
    put("operation", operation.word().into());
    put("apiVersion", api_version.into());
    if let Some(time) = entry.time {
        put("time", time.into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", entry.set.into_json());
    if !subresource.is_empty() {
        put("subresource", subresource.into());
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(name: &str, operation: &str, version: &str, field: &str) -> Value {
        json!({
            "manager": name, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {(format!("f:{field}")): {}},
        })
    }

    #[test]
    fn the_last_entry_of_a_manager_counts() {
        let sent = json!([
            entry("a", "Apply", "v1", "one"),
            entry("a", "Update", "v1", "two"),
            entry("b", "Update", "v1", "three"),
            entry("a", "Apply", "v2", "four"),
            entry("a", "Update", "v2", "five"),
            entry("a", "Update", "v1", "six"),
        ]);
        let read = Managers::client(&sent).expect("a record");
        let want = json!([sent[2], sent[3], sent[4], sent[5]]);
        assert_eq!(read, Managers::stored(want));
    }

    /// Done badly this takes minutes.
    #[test]
    fn very_many_managers() {
        let sent: Value = (0..60_000).map(|n| entry(&n.to_string(), "Update", "v1", "a")).collect();
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(Managers::client(&sent)));
        let read = wait.recv_timeout(std::time::Duration::from_secs(30)).expect("in time");
        assert_eq!(read.map(|managers| managers.0.len()), Some(60_000));
    }
}
