//! The v2 document in protobuf: the messages of gnostic's OpenAPIv2, which older clients ask for.
//!
//! One table per message says where each field of the JSON goes.

use serde_json::{Map, Value};

use crate::protobuf::wire::Writer;

/// How a field travels.
enum As {
    Text,
    Texts,
    Flag,
    Integer,
    Double,
    /// Any JSON, as YAML, which JSON is.
    Any,
    Anys,
    Message(fn(&Value) -> Vec<u8>),
    Messages(fn(&Value) -> Vec<u8>),
    /// An object whose keys are no fields: a message of pairs, at this number inside it.
    Named(u32, fn(&Value) -> Vec<u8>),
}

type Table = &'static [(&'static str, u32, As)];

/// The number of vendor extensions in messages that have none.
const NO_EXTENSIONS: u32 = 0;

fn message(value: &Value, table: Table, extensions: u32) -> Vec<u8> {
    let mut out = Writer::default();
    let Value::Object(object) = value else { return out.finish() };
    for (field, number, shape) in table {
        if let Some(value) = object.get(*field) {
            put(&mut out, *number, shape, value);
        }
    }
    if extensions != NO_EXTENSIONS {
        for (name, value) in object.iter().filter(|(name, _)| name.starts_with("x-")) {
            out.bytes(extensions, &pair(name, &any(value)));
        }
    }
    out.finish()
}

fn put(out: &mut Writer, number: u32, shape: &As, value: &Value) {
    match shape {
        As::Text => out.text(number, value.as_str().unwrap_or_default()),
        As::Texts => texts(out, number, value),
        As::Flag => out.varint(number, value.as_bool().unwrap_or_default().into()),
        As::Integer => out.varint(number, value.as_i64().unwrap_or_default().cast_unsigned()),
        As::Double => out.fixed64(number, value.as_f64().unwrap_or_default().to_bits()),
        As::Any => out.bytes(number, &any(value)),
        As::Anys => items(value).iter().for_each(|item| out.bytes(number, &any(item))),
        As::Message(encode) => out.bytes(number, &encode(value)),
        As::Messages(encode) => items(value).iter().for_each(|item| out.bytes(number, &encode(item))),
        As::Named(inner, encode) => out.bytes(number, &named(value, *inner, *encode)),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(out: &mut Writer, number: u32, value: &Value) {
    items(value).iter().filter_map(Value::as_str).for_each(|text| out.text(number, text));
}

fn named(value: &Value, number: u32, encode: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Writer::default();
    let none = Map::new();
    for (name, value) in value.as_object().unwrap_or(&none) {
        out.bytes(number, &pair(name, &encode(value)));
    }
    out.finish()
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.text(1, name);
    out.bytes(2, value);
    out.finish()
}

fn any(value: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    out.text(2, &value.to_string());
    out.finish()
}

/// One alternative of several.
fn wrapped(number: u32, inner: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(number, inner);
    out.finish()
}

pub fn document(value: &Value) -> Vec<u8> {
    const TABLE: Table = &[
        ("swagger", 1, As::Text),
        ("info", 2, As::Message(info)),
        ("paths", 8, As::Named(2, path_item)),
        ("definitions", 9, As::Named(1, schema)),
        ("parameters", 10, As::Named(1, parameter)),
        ("security", 12, As::Messages(requirement)),
        ("securityDefinitions", 13, As::Named(1, security)),
    ];
    message(value, TABLE, 16)
}

fn info(value: &Value) -> Vec<u8> {
    message(value, &[("title", 1, As::Text), ("version", 2, As::Text)], 7)
}

fn requirement(value: &Value) -> Vec<u8> {
    fn list(value: &Value) -> Vec<u8> {
        let mut out = Writer::default();
        texts(&mut out, 1, value);
        out.finish()
    }
    named(value, 1, list)
}

/// Only API keys are used.
fn security(value: &Value) -> Vec<u8> {
    const TABLE: Table =
        &[("type", 1, As::Text), ("name", 2, As::Text), ("in", 3, As::Text), ("description", 4, As::Text)];
    wrapped(2, &message(value, TABLE, 5))
}

fn path_item(value: &Value) -> Vec<u8> {
    const TABLE: Table = &[
        ("get", 2, As::Message(operation)),
        ("put", 3, As::Message(operation)),
        ("post", 4, As::Message(operation)),
        ("delete", 5, As::Message(operation)),
        ("options", 6, As::Message(operation)),
        ("head", 7, As::Message(operation)),
        ("patch", 8, As::Message(operation)),
        ("parameters", 9, As::Messages(parameter_or_reference)),
    ];
    message(value, TABLE, 10)
}

fn operation(value: &Value) -> Vec<u8> {
    const TABLE: Table = &[
        ("tags", 1, As::Texts),
        ("description", 3, As::Text),
        ("operationId", 5, As::Text),
        ("produces", 6, As::Texts),
        ("consumes", 7, As::Texts),
        ("parameters", 8, As::Messages(parameter_or_reference)),
        ("responses", 9, As::Named(1, response)),
        ("schemes", 10, As::Texts),
    ];
    message(value, TABLE, 13)
}

fn parameter_or_reference(value: &Value) -> Vec<u8> {
    if value.get("$ref").is_some() {
        return wrapped(2, &message(value, &[("$ref", 1, As::Text)], NO_EXTENSIONS));
    }
    wrapped(1, &parameter(value))
}

fn parameter(value: &Value) -> Vec<u8> {
    const BODY: Table = &[
        ("description", 1, As::Text),
        ("name", 2, As::Text),
        ("in", 3, As::Text),
        ("required", 4, As::Flag),
        ("schema", 5, As::Message(schema)),
    ];
    const QUERY: Table = &[
        ("required", 1, As::Flag),
        ("in", 2, As::Text),
        ("description", 3, As::Text),
        ("name", 4, As::Text),
        ("type", 6, As::Text),
        ("uniqueItems", 20, As::Flag),
    ];
    const PATH: Table = &[
        ("required", 1, As::Flag),
        ("in", 2, As::Text),
        ("description", 3, As::Text),
        ("name", 4, As::Text),
        ("type", 5, As::Text),
        ("uniqueItems", 19, As::Flag),
    ];
    match value.get("in").and_then(Value::as_str) {
        Some("body") => wrapped(1, &message(value, BODY, 6)),
        Some("path") => wrapped(2, &wrapped(4, &message(value, PATH, 22))),
        _ => wrapped(2, &wrapped(3, &message(value, QUERY, 23))),
    }
}

fn response(value: &Value) -> Vec<u8> {
    fn item(value: &Value) -> Vec<u8> {
        wrapped(1, &schema(value))
    }
    wrapped(1, &message(value, &[("description", 1, As::Text), ("schema", 2, As::Message(item))], 5))
}

fn schema(value: &Value) -> Vec<u8> {
    fn additional(value: &Value) -> Vec<u8> {
        let mut out = Writer::default();
        match value {
            Value::Bool(flag) => out.varint(2, (*flag).into()),
            other => out.bytes(1, &schema(other)),
        }
        out.finish()
    }
    fn type_item(value: &Value) -> Vec<u8> {
        let mut out = Writer::default();
        out.text(1, value.as_str().unwrap_or_default());
        out.finish()
    }
    fn items_item(value: &Value) -> Vec<u8> {
        wrapped(1, &schema(value))
    }
    const TABLE: Table = &[
        ("$ref", 1, As::Text),
        ("format", 2, As::Text),
        ("title", 3, As::Text),
        ("description", 4, As::Text),
        ("multipleOf", 6, As::Double),
        ("maximum", 7, As::Double),
        ("exclusiveMaximum", 8, As::Flag),
        ("minimum", 9, As::Double),
        ("exclusiveMinimum", 10, As::Flag),
        ("maxLength", 11, As::Integer),
        ("minLength", 12, As::Integer),
        ("pattern", 13, As::Text),
        ("maxItems", 14, As::Integer),
        ("minItems", 15, As::Integer),
        ("uniqueItems", 16, As::Flag),
        ("maxProperties", 17, As::Integer),
        ("minProperties", 18, As::Integer),
        ("required", 19, As::Texts),
        ("enum", 20, As::Anys),
        ("additionalProperties", 21, As::Message(additional)),
        ("type", 22, As::Message(type_item)),
        ("items", 23, As::Message(items_item)),
        ("properties", 25, As::Named(1, schema)),
        ("example", 30, As::Any),
    ];
    message(value, TABLE, 31)
}
