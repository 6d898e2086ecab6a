//! Which lists merge by a key, which as sets, and which are replaced: the `patchStrategy` of upstream's types.

use serde_json::Value;

use crate::schema::{Schema, TypeId};

/// How a strategic merge treats a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    Replace,
    /// Elements are objects, matched by this field.
    MergeBy(&'static str),
    /// Elements are primitives; new ones are added.
    Set,
}

/// Where a patch stands: the kind of the object, and the fields that lead from its root, without positions.
pub struct Path<'a> {
    root: Option<TypeId>,
    pub fields: Vec<&'a str>,
}

impl Path<'_> {
    /// The root of an object that says what it is.
    pub fn of(object: &serde_json::Map<String, Value>) -> Self {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let root = Schema::get().kind(text("apiVersion"), text("kind"));
        Self { root, fields: Vec::new() }
    }

    pub fn list_kind(&self) -> ListKind {
        let field = self.root.and_then(|root| Schema::get().at(root, &self.fields));
        match field.map(|field| &field.merge).filter(|merge| merge.elements) {
            None => ListKind::Replace,
            Some(merge) if merge.key.is_empty() => ListKind::Set,
            Some(merge) => ListKind::MergeBy(&merge.key),
        }
    }
}
