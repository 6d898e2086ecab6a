//! Which part of an old object a part of its new state replaces: errors of parts that did not change are no reason to
//! refuse an update.

use std::collections::HashMap;

use serde_json::Value;

use super::schema::Schema;

/// A value and the one it replaces.
#[derive(Debug, Clone, Copy)]
pub struct Correlated<'a> {
    pub new: &'a Value,
    pub old: &'a Value,
    schema: &'a Schema,
    root: bool,
}

impl<'a> Correlated<'a> {
    pub fn root(new: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        Self { new, old, schema, root: true }
    }

    pub fn is_unchanged(&self) -> bool {
        self.new == self.old
    }

    /// What stands under a key. The version of an object is a matter of who looks, so it is never unchanged.
    pub fn key(&self, key: &str) -> Option<Self> {
        if self.root && matches!(key, "apiVersion" | "kind") {
            return None;
        }
        let (new, old) = (self.new.get(key)?, self.old.get(key)?);
        Some(Self { new, old, schema: self.schema.member(key)?, root: false })
    }

    /// The elements of a list with what each replaces. Only elements with keys can be told apart.
    pub fn elements(&self) -> Elements<'a> {
        let mut elements = Elements { list: *self, old: HashMap::new() };
        if let (true, Some(old)) = (self.schema.is_list("map"), self.old.as_array()) {
            let keys = &self.schema.list_map_keys;
            elements.old = old.iter().map(|item| (key_of(item, keys), item)).collect();
        }
        elements
    }
}

pub struct Elements<'a> {
    list: Correlated<'a>,
    old: HashMap<String, &'a Value>,
}

impl<'a> Elements<'a> {
    pub fn get(&self, index: usize) -> Option<Correlated<'a>> {
        if self.old.is_empty() {
            return None;
        }
        let new = self.list.new.as_array()?.get(index)?;
        let old = self.old.get(&key_of(new, &self.list.schema.list_map_keys))?;
        Some(Correlated { new, old, schema: self.list.schema.items()?, root: false })
    }
}

/// The keys of an element as one text.
pub fn key_of(item: &Value, keys: &[String]) -> String {
    let values: Vec<&Value> = keys.iter().map(|key| &item[key.as_str()]).collect();
    serde_json::to_string(&values).unwrap_or_default()
}
