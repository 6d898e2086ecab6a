//! Changes on top of the live state that nobody sees yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_api::ObjectKey;
use serde_json::Value;

use super::object::{Event, EventKind, Stored, encode};
use super::state::Shared;

/// A kind and the place of an object in it.
pub type Slot = (Arc<str>, ObjectKey);
pub type Events = Vec<(Arc<str>, Arc<Event>)>;

/// Events in the making; later ones see what earlier ones did.
pub struct Draft<'a> {
    shared: &'a Shared,
    pending: BTreeMap<Slot, Option<Arc<Stored>>>,
    events: Events,
}

impl<'a> Draft<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        Self { shared, pending: BTreeMap::new(), events: Vec::new() }
    }

    /// What a slot holds with all changes so far.
    pub fn current(&self, slot: &Slot) -> Option<Arc<Stored>> {
        match self.pending.get(slot) {
            Some(current) => current.clone(),
            None => self.shared.read().object(&slot.0, &slot.1),
        }
    }

    /// The event of a new state, or of a deletion for none. Not part of the draft until it is added.
    pub fn event(
        current: Option<Arc<Stored>>,
        key: &ObjectKey,
        new: Option<Value>,
        version: u64,
    ) -> Result<Event, String> {
        let (kind, value) = match (new, &current) {
            (Some(value), None) => (EventKind::Added, value),
            (Some(value), Some(_)) => (EventKind::Modified, value),
            (None, Some(object)) => (EventKind::Deleted, object.value()),
            (None, None) => return Err("there is nothing to delete".into()),
        };
        let (json, frame) = encode(kind, value, version)?;
        let object = Arc::new(Stored::new(key.clone(), version, json));
        Ok(Event { kind, version, object, previous: current, frame })
    }

    pub fn add(&mut self, slot: Slot, event: Event) -> Arc<Stored> {
        let object = event.object.clone();
        let live = event.kind != EventKind::Deleted;
        self.events.push((slot.0.clone(), Arc::new(event)));
        self.pending.insert(slot, live.then(|| object.clone()));
        object
    }

    pub fn finish(self) -> Events {
        self.events
    }
}
