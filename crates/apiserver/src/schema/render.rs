//! Writes an object as Go's encoder writes upstream's types, so that the answers of both are equal: empty values are
//! left out or spelt out as each field says.

use serde_json::{Map, Value};

use super::{Field, Schema, Shape, TypeId};

/// Adds and removes empty values below `value`, which is an object of the type.
pub fn render(schema: &Schema, id: TypeId, value: &mut Value) {
    if let Value::Object(object) = value {
        message(schema, id, object);
    }
}

fn message(schema: &Schema, id: TypeId, object: &mut Map<String, Value>) {
    for field in &schema.of(id).fields {
        match field.shape {
            Shape::Message(inner) if field.inline => message(schema, inner, object),
            _ => one(schema, field, object),
        }
    }
}

fn one(schema: &Schema, field: &Field, object: &mut Map<String, Value>) {
    let found = object.get_mut(&*field.name);
    let there = found.is_some();
    let Some(value) = found.filter(|value| !value.is_null()) else {
        match missing(schema, field) {
            Some(value) => _ = object.insert(field.name.to_string(), value),
            None if there => _ = object.remove(&*field.name),
            None => {}
        }
        return;
    };
    inner(schema, &field.shape, value);
    if field.pointer || !is_empty(&field.shape, value, field.omit_zero) {
        return;
    }
    if field.omit_empty {
        object.remove(&*field.name);
    } else if matches!(value, Value::Array(_) | Value::Object(_)) {
        // Upstream stores protobuf, which does not tell an empty list from none.
        *value = Value::Null;
    }
}

fn inner(schema: &Schema, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Message(id), Value::Object(object)) => message(schema, *id, object),
        // Most lists and maps hold text and numbers, which are what they are.
        (Shape::List(element) | Shape::WrappedList(element), Value::Array(items)) if nests(element) => {
            items.iter_mut().for_each(|item| inner(schema, element, item));
        }
        (Shape::Map(element), Value::Object(entries)) if nests(element) => {
            entries.values_mut().for_each(|entry| inner(schema, element, entry));
        }
        _ => {}
    }
}

fn nests(shape: &Shape) -> bool {
    matches!(shape, Shape::Message(_) | Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_))
}

/// What stands for a field that nobody set; `None` leaves it out.
fn missing(schema: &Schema, field: &Field) -> Option<Value> {
    if field.pointer {
        return (!field.omit_empty).then_some(Value::Null);
    }
    match &field.shape {
        _ if field.omit_zero => None,
        // To Go these are structs, which are never empty.
        Shape::Message(id) => {
            let mut object = Map::new();
            message(schema, *id, &mut object);
            Some(Value::Object(object))
        }
        Shape::Time | Shape::MicroTime | Shape::RawExtension | Shape::FieldsV1 => Some(Value::Null),
        Shape::Quantity => Some("0".into()),
        Shape::IntOrString => Some(0.into()),
        Shape::Duration => Some("0s".into()),
        _ if field.omit_empty => None,
        Shape::String => Some("".into()),
        Shape::Bool => Some(false.into()),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some(0.into()),
        Shape::Bytes | Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_) => Some(Value::Null),
    }
}

/// What Go's `omitempty` leaves out. Structs are never empty to it; `omitzero` sees them.
fn is_empty(shape: &Shape, value: &Value, omit_zero: bool) -> bool {
    match (shape, value) {
        (Shape::Message(_), Value::Object(fields)) => omit_zero && fields.is_empty(),
        (Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime | Shape::Duration, _)
        | (Shape::RawExtension | Shape::FieldsV1, _) => false,
        (_, Value::Null) => true,
        (_, Value::Bool(flag)) => !flag,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(entries)) => entries.is_empty(),
    }
}
