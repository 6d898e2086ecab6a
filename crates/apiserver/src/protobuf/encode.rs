//! From JSON to protobuf. Fields that the schema does not have stay behind.

use serde_json::{Map, Value};

use super::scalar;
use super::wire::Writer;
use crate::schema::{Field, Schema, Shape, TypeId};

pub fn message(schema: &Schema, id: TypeId, value: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    let Value::Object(object) = value else { return out.finish() };
    let of = schema.of(id);
    let mut present: Vec<(&Field, &Value)> = Vec::with_capacity(object.len() + 1);
    // Few of the many fields are there, so they are looked up and not tried.
    present.extend(object.iter().filter(|(_, value)| !value.is_null()).filter_map(|(name, value)| {
        of.own(name).filter(|field| field.number > 0).map(|field| (field, value))
    }));
    // Upstream writes these even when all of them is empty, as Go has no absent struct.
    present.extend(
        of.fields.iter().filter(|field| field.inline && field.number > 0).map(|field| (field, value)),
    );
    present.sort_unstable_by_key(|(field, _)| field.number);
    for (field, value) in present {
        put(schema, &mut out, field.number, &field.shape, value);
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
