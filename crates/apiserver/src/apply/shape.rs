//! How a value divides into parts that managers own separately.

use serde_json::{Map, Value};

use crate::schema::{Field, Ownership, Schema, Shape, TypeId};

/// The schema of one value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A message with known fields.
    Message(TypeId),
    /// Any keys; the values share a schema.
    Map(&'static Shape),
    /// A list whose elements are matched.
    List { keys: &'static [Box<str>], element: &'static Shape },
    /// One value, whatever is in it.
    Leaf,
    /// Nothing is known: objects divide by field, lists are one value.
    Deduced,
}

impl Kind {
    pub fn root(api_version: &str, kind: &str) -> Self {
        Schema::get().kind(api_version, kind).map_or(Self::Deduced, Self::Message)
    }

    fn of_field(field: &'static Field) -> Self {
        match (&field.ownership, &field.shape) {
            (Ownership::Atomic, _) => Self::Leaf,
            (Ownership::Set, Shape::List(element)) => Self::List { keys: &[], element },
            (Ownership::Map(keys), Shape::List(element)) => Self::List { keys, element },
            (_, shape) => Self::of_shape(shape),
        }
    }

    fn of_shape(shape: &'static Shape) -> Self {
        match shape {
            Shape::Message(id) if Schema::get().of(*id).atomic => Self::Leaf,
            Shape::Message(id) => Self::Message(*id),
            Shape::Map(element) => Self::Map(element),
            _ => Self::Leaf,
        }
    }

    /// The schema of what stands under a field or key.
    pub fn member(self, name: &str) -> Self {
        match self {
            Self::Message(id) => {
                let schema = Schema::get();
                schema.field(schema.of(id), name).map_or(Self::Deduced, Self::of_field)
            }
            Self::Map(element) => Self::of_shape(element),
            Self::Deduced => Self::Deduced,
            Self::List { .. } | Self::Leaf => Self::Leaf,
        }
    }

    /// Whether objects divide into members here.
    pub fn divides_objects(self) -> bool {
        matches!(self, Self::Message(_) | Self::Map(_) | Self::Deduced)
    }

    pub fn element(self) -> Self {
        match self {
            Self::List { element, .. } => Self::of_shape(element),
            _ => Self::Leaf,
        }
    }

    /// What an element of a matched list is called in a path. `None` if its keys are missing.
    pub fn name_element(self, element: &Value) -> Option<String> {
        let Self::List { keys, element: shape } = self else { return None };
        if keys.is_empty() {
            return Some(format!("v:{element}"));
        }
        let mut named = Map::new();
        for key in keys {
            let value = element.get(&**key).cloned().or_else(|| default_key(shape, key))?;
            named.insert(key.to_string(), value);
        }
        Some(format!("k:{}", Value::Object(named)))
    }
}

/// Keys that upstream's types fill in when they are left out.
fn default_key(shape: &Shape, key: &str) -> Option<Value> {
    let Shape::Message(id) = shape else { return None };
    let name = &Schema::get().of(*id).name;
    let short = name.rsplit('.').next().unwrap_or_default();
    match (short, key) {
        ("ContainerPort" | "ServicePort", "protocol") => Some("TCP".into()),
        _ => None,
    }
}
