//! From protobuf to JSON.

use serde_json::{Map, Value};

use super::wire::{Raw, Reader, wrong};
use super::{DEPTH_MAX, ProtobufError, Result, scalar};
use crate::schema::{Field, Schema, Shape, TypeId};

pub fn message(schema: &Schema, id: TypeId, bytes: &[u8], depth: usize) -> Result<Map<String, Value>> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::TooDeep);
    }
    let of = schema.of(id);
    let mut object = Map::new();
    for entry in Reader::new(bytes) {
        let (number, raw) = entry?;
        // Fields of a newer version are none of ours.
        let Some(field) = of.fields.iter().find(|field| field.number == number) else { continue };
        add(schema, field, raw, depth, &mut object).map_err(|error| name_field(error, field))?;
    }
    object.retain(|_, value| !value.is_null());
    Ok(object)
}

fn name_field(error: ProtobufError, field: &Field) -> ProtobufError {
    match error {
        ProtobufError::Field { field: inner, why } if inner.is_empty() => {
            ProtobufError::Field { field: field.name.clone(), why }
        }
        other => other,
    }
}

fn add(
    schema: &Schema,
    field: &Field,
    raw: Raw<'_>,
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<()> {
    match &field.shape {
        Shape::Message(inner) if field.inline => {
            object.extend(message(schema, *inner, raw.bytes()?, depth + 1)?);
        }
        Shape::List(element) => {
            let list = object.entry(&*field.name).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(list) = list else { return Err(wrong("both a list and not")) };
            match (element.as_ref(), raw) {
                // Numbers may come packed.
                (Shape::Int32 | Shape::Int64 | Shape::Bool, Raw::Bytes(packed)) => {
                    let mut packed = Reader::new(packed);
                    while !packed.is_empty() {
                        list.push(scalar::decode(element, Raw::Varint(packed.varint()?))?);
                    }
                }
                _ => list.push(value(schema, element, raw, depth)?),
            }
        }
        Shape::Map(element) => {
            let map = object.entry(&*field.name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(map) = map else { return Err(wrong("both a map and not")) };
            let (key, entry) = map_entry(schema, element, raw.bytes()?, depth)?;
            map.insert(key, entry);
        }
        shape => {
            let decoded = value(schema, shape, raw, depth)?;
            if !(field.omit_empty && !field.pointer && is_empty(&decoded)) {
                object.insert(field.name.to_string(), decoded);
            }
        }
    }
    Ok(())
}

fn value(schema: &Schema, shape: &Shape, raw: Raw<'_>, depth: usize) -> Result<Value> {
    match shape {
        Shape::Message(inner) => message(schema, *inner, raw.bytes()?, depth + 1).map(Value::Object),
        Shape::WrappedList(element) => {
            let items = Reader::new(raw.bytes()?).map(|entry| value(schema, element, entry?.1, depth + 1));
            items.collect::<Result<Vec<_>>>().map(Value::Array)
        }
        Shape::List(_) | Shape::Map(_) => Err(wrong("a list within a list")),
        scalar => scalar::decode(scalar, raw),
    }
}

/// A missing key or value is an empty one.
fn map_entry(schema: &Schema, shape: &Shape, bytes: &[u8], depth: usize) -> Result<(String, Value)> {
    let mut key = String::new();
    let mut found = None;
    for entry in Reader::new(bytes) {
        match entry? {
            (1, raw) => key = raw.text()?,
            (2, raw) => found = Some(value(schema, shape, raw, depth + 1)?),
            _ => {}
        }
    }
    let found = match found {
        Some(found) => found,
        None => value(schema, shape, Raw::Bytes(&[]), depth + 1)?,
    };
    Ok((key, found))
}

/// What Go's `omitempty` leaves out. Messages stay: a struct is never empty to it.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(true) | Value::Object(_) => false,
    }
}
