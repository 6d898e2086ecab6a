//! From JSON to protobuf. Fields that the schema does not have stay behind.

use serde_json::{Map, Value};

use super::scalar;
use super::wire::Writer;
use crate::schema::{Schema, Shape, TypeId};

pub fn message(schema: &Schema, id: TypeId, value: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    let Value::Object(object) = value else { return out.finish() };
    for field in schema.of(id).fields.iter().filter(|field| field.number > 0) {
        match &field.shape {
            // Upstream writes it even when all of it is empty, as Go has no absent struct.
            Shape::Message(inner) if field.inline => {
                out.bytes(field.number, &message(schema, *inner, value));
            }
            shape => {
                if let Some(value) = object.get(&*field.name).filter(|value| !value.is_null()) {
                    put(schema, &mut out, field.number, shape, value);
                }
            }
        }
    }
    out.finish()
}

fn put(schema: &Schema, out: &mut Writer, number: u32, shape: &Shape, value: &Value) {
    match (shape, value) {
        (Shape::Message(inner), _) => out.bytes(number, &message(schema, *inner, value)),
        (Shape::List(element), Value::Array(items)) => {
            for item in items {
                put(schema, out, number, element, item);
            }
        }
        (Shape::WrappedList(element), Value::Array(items)) => {
            let mut wrapped = Writer::default();
            for item in items {
                put(schema, &mut wrapped, 1, element, item);
            }
            out.bytes(number, &wrapped.finish());
        }
        (Shape::Map(element), Value::Object(entries)) => {
            for (key, value) in sorted(entries) {
                let mut entry = Writer::default();
                entry.text(1, key);
                put(schema, &mut entry, 2, element, value);
                out.bytes(number, &entry.finish());
            }
        }
        (Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_), _) => {}
        (scalar, value) => scalar::encode(out, number, scalar, value),
    }
}

/// By key, so that equal objects have equal bytes.
fn sorted(entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut all: Vec<_> = entries.iter().collect();
    all.sort_by_key(|(key, _)| *key);
    all
}
