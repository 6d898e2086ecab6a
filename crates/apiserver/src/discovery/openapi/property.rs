//! One field of a schema: how a reference with a description is written, and the marks that clients merge by.

use serde_json::{Map, Value, json};

use super::facts::{Facts, OfType};
use crate::schema::{Field, Ownership, Shape};

/// What is said of a field beside its type.
pub struct Marks<'a> {
    field: Option<&'a Field>,
    default: Option<&'a Value>,
    values: Option<&'a [String]>,
    atomic: bool,
    granular: bool,
}

impl<'a> Marks<'a> {
    pub fn of(name: &str, field: Option<&'a Field>, facts: &'a Facts, of: &'a OfType) -> Self {
        Self {
            field,
            default: of.default.get(name),
            values: facts.values(of, name),
            atomic: of.atomic.iter().any(|atomic| atomic == name),
            granular: of.granular.iter().any(|granular| granular == name),
        }
    }

    pub fn put_on(&self, property: &mut Value) {
        let implied = self.field.and_then(|field| field_default(field));
        shape(property, self.default.cloned().or(implied), self.field.map(|field| &field.shape), self.values);
        let Some(property) = property.as_object_mut() else { return };
        self.enumerate(property);
        self.ownership(property);
        self.merge(property);
    }

    /// The values stand in the description too, for people; those of the elements of a list do not.
    fn enumerate(&self, property: &mut Map<String, Value>) {
        let Some(values) = self.values.filter(|_| property.contains_key("enum")) else { return };
        let Some(Value::String(description)) = property.get_mut("description") else { return };
        description.push_str("\n\nPossible enum values:");
        for value in values {
            description.push_str(&format!("\n - `{}`", Value::from(value.as_str())));
        }
    }

    fn ownership(&self, property: &mut Map<String, Value>) {
        let Some(field) = self.field else { return };
        let mut mark = |name: &str, value: Value| _ = property.insert(format!("x-kubernetes-{name}"), value);
        match (&field.shape, &field.ownership) {
            (Shape::List(_), Ownership::Map(keys)) => {
                mark("list-type", "map".into());
                mark("list-map-keys", keys.iter().map(|key| Value::from(&**key)).collect());
            }
            (Shape::List(_), Ownership::Set) => mark("list-type", "set".into()),
            (Shape::List(_), _) if self.atomic => mark("list-type", "atomic".into()),
            (Shape::Map(_) | Shape::Message(_), _) if self.granular => mark("map-type", "granular".into()),
            (Shape::Map(_), _) if self.atomic => mark("map-type", "atomic".into()),
            _ => {}
        }
    }

    fn merge(&self, property: &mut Map<String, Value>) {
        let Some(merge) = self.field.map(|field| &field.merge) else { return };
        let strategies = [(merge.elements, "merge"), (merge.retain_keys, "retainKeys")];
        let strategies: Vec<&str> = strategies.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        if !strategies.is_empty() {
            property.insert("x-kubernetes-patch-strategy".into(), strategies.join(",").into());
        }
        if !merge.key.is_empty() {
            property.insert("x-kubernetes-patch-merge-key".into(), (*merge.key).into());
        }
    }
}

/// What Go holds where a client sent nothing.
fn field_default(field: &Field) -> Option<Value> {
    match field.shape {
        _ if field.pointer => None,
        Shape::Message(_) => Some(json!({})),
        _ if field.omit_empty => None,
        _ => zero(&field.shape),
    }
}

fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::String => Some("".into()),
        Shape::Bool => Some(false.into()),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some(0.into()),
        Shape::Message(_) => Some(json!({})),
        _ => None,
    }
}

/// Writes one schema as upstream does, with its elements.
fn shape(schema: &mut Value, default: Option<Value>, of: Option<&Shape>, values: Option<&[String]>) {
    let Some(object) = schema.as_object_mut() else { return };
    let element = match of {
        Some(Shape::List(element) | Shape::WrappedList(element) | Shape::Map(element)) => Some(&**element),
        _ => None,
    };
    let mut nested = false;
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(inner).filter(|inner| inner.is_object()) {
            shape(inner, element.and_then(zero), element, values);
            nested = true;
        }
    }
    if let Some(values) = values.filter(|_| !nested) {
        object.insert("enum".into(), json!(values));
    }
    // Nothing may stand beside a reference, so one that has a companion is wrapped.
    if object.contains_key("$ref") && (object.len() > 1 || default.is_some()) {
        let target = object.remove("$ref");
        object.insert("allOf".into(), json!([{"$ref": target}]));
    }
    if let Some(default) = default {
        object.insert("default".into(), default);
    }
}
