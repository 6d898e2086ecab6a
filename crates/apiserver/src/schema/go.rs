//! Writes values as Go writes upstream's own types when it complains about them: fields by their names in Go, in the
//! order of the type, empty ones included.

use serde_json::Value;

use super::{API, Field, Schema, Shape, TypeId, internal};

pub type Fields = Vec<(String, Tree)>;

/// A value whose fields have an order.
pub enum Tree {
    Leaf(String),
    List(Vec<Tree>),
    Fields(Fields),
}

pub fn compact(schema: &Schema, id: TypeId, value: &Value) -> String {
    let mut text = String::new();
    write(&message(schema, id, value), &mut text);
    text
}

pub fn lines(schema: &Schema, id: TypeId, value: &Value) -> Vec<String> {
    let mut text = String::new();
    write_indented(&message(schema, id, value), 0, &mut text);
    text.lines().map(str::to_owned).collect()
}

fn message(schema: &Schema, id: TypeId, value: &Value) -> Tree {
    Tree::Fields(fields(schema, id, value))
}

fn fields(schema: &Schema, id: TypeId, value: &Value) -> Fields {
    let mut out = Vec::new();
    let of = schema.of(id);
    // Types that all versions share are written as clients see them.
    let shared = !of.name.starts_with(API);
    for field in &of.fields {
        let found = &value[&*field.name];
        match &field.shape {
            Shape::Message(inner) if field.inline => out.extend(fields(schema, *inner, value)),
            Shape::Message(inner) if &*field.name == "metadata" => out.extend(fields(schema, *inner, found)),
            _ if shared && found.is_null() => {}
            _ if shared => out.push((field.name.to_string(), tree(schema, field, found))),
            shape if internal::is_always_there(&of.name, &field.title) => {
                out.push((field.title.to_string(), shaped(schema, shape, found)));
            }
            _ => out.push((field.title.to_string(), tree(schema, field, found))),
        }
    }
    internal::arrange(&of.name, &mut out);
    out
}

fn tree(schema: &Schema, field: &Field, value: &Value) -> Tree {
    if value.is_null() && field.pointer { leaf("null") } else { shaped(schema, &field.shape, value) }
}

fn leaf(text: &str) -> Tree {
    Tree::Leaf(text.to_owned())
}

fn shaped(schema: &Schema, shape: &Shape, value: &Value) -> Tree {
    match (shape, value) {
        (Shape::Message(id), value) => message(schema, *id, value),
        (Shape::List(element) | Shape::WrappedList(element), Value::Array(items)) => {
            Tree::List(items.iter().map(|item| shaped(schema, element, item)).collect())
        }
        (Shape::Map(element), Value::Object(entries)) => {
            let entries = entries.iter().map(|(key, entry)| (key.clone(), shaped(schema, element, entry)));
            Tree::Fields(entries.collect())
        }
        (Shape::String, Value::Null) => leaf("\"\""),
        (Shape::Bool, Value::Null) => leaf("false"),
        (Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString, Value::Null) => leaf("0"),
        (Shape::Quantity, Value::Null) => leaf("\"0\""),
        (_, value) => Tree::Leaf(value.to_string()),
    }
}

fn write(tree: &Tree, out: &mut String) {
    match tree {
        Tree::Leaf(text) => out.push_str(text),
        Tree::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Tree::Fields(fields) => {
            out.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&format!("{name:?}:"));
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// One space for each level.
fn write_indented(tree: &Tree, depth: usize, out: &mut String) {
    let pad = |depth: usize| " ".repeat(depth);
    match tree {
        Tree::List(items) if !items.is_empty() => {
            out.push_str("[\n");
            for (index, item) in items.iter().enumerate() {
                out.push_str(&pad(depth + 1));
                write_indented(item, depth + 1, out);
                out.push_str(if index + 1 < items.len() { ",\n" } else { "\n" });
            }
            out.push_str(&format!("{}]", pad(depth)));
        }
        Tree::Fields(fields) if !fields.is_empty() => {
            out.push_str("{\n");
            for (index, (name, value)) in fields.iter().enumerate() {
                out.push_str(&format!("{}{name:?}: ", pad(depth + 1)));
                write_indented(value, depth + 1, out);
                out.push_str(if index + 1 < fields.len() { ",\n" } else { "\n" });
            }
            out.push_str(&format!("{}}}", pad(depth)));
        }
        other => write(other, out),
    }
}
