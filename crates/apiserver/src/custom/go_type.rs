//! Reading JSON into Go's types: what does not fit is refused in Go's words, what is not a field is dropped and named,
//! what is empty is left out as Go leaves it out.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// What a field holds.
#[derive(Clone, Copy)]
pub enum Shape {
    /// Text; upstream gives some texts a type of their own.
    Text(&'static str),
    Int(&'static str),
    Float,
    Bool,
    Time,
    TextMap,
    Texts,
    One(&'static Struct),
    List(&'static Struct),
    Named(&'static Struct),
    /// A type that reads itself: an object of a kind, or a flag. Its own errors know nothing of where it stands.
    OrBool(&'static Struct),
    OrList(&'static Struct),
    /// Not looked into.
    Raw,
}

pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// Present even if it is empty.
    pub kept: bool,
}

pub struct Struct {
    pub name: &'static str,
    pub fields: &'static [Field],
}

pub const STRING: Shape = Shape::Text("string");
pub const INT64: Shape = Shape::Int("int64");

/// A field that is left out when it is empty.
pub const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, kept: false }
}

/// A field that is always there, or whose presence counts.
pub const fn kept(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, kept: true }
}

/// An object as its type has it. Paths of unknown fields are added to the list.
pub fn read(value: &Value, of: &'static Struct, unknown: &mut Vec<String>) -> Result<Value, String> {
    match value {
        Value::Object(fields) => Ok(Value::Object(members(fields, of, &Place::default(), unknown)?)),
        Value::Null => Ok(Value::Object(Map::new())),
        other => Err(format!("json: cannot unmarshal {} into Go value of type v1.{}", word(other), of.name)),
    }
}

/// Where a value stands: for errors, which name neither keys nor positions, and for unknown fields, which do.
#[derive(Default, Clone)]
struct Place {
    fields: String,
    full: String,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let join = |path: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        Self { fields: join(&self.fields), full: join(&self.full) }
    }

    fn index(&self, index: usize) -> Self {
        Self { full: format!("{}[{index}]", self.full), ..self.clone() }
    }

    fn key(&self, key: &str) -> Self {
        Self { full: format!("{}.{key}", self.full), ..self.clone() }
    }
}

fn members(
    fields: &Map<String, Value>,
    of: &'static Struct,
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    for (name, value) in fields {
        let place = place.field(name);
        let Some(field) = of.fields.iter().find(|field| field.name == name) else {
            unknown.push(place.full);
            continue;
        };
        let value = shaped(value, field.shape, of, &place, unknown)?;
        if !value.is_null() && (field.kept || !is_empty(&value)) {
            out.insert(name.clone(), value);
        }
    }
    Ok(out)
}

fn shaped(
    value: &Value,
    shape: Shape,
    of: &'static Struct,
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    let misfit = |found: &str, wanted: &str| {
        let (name, path) = (of.name, &place.fields);
        Err(format!("json: cannot unmarshal {found} into Go struct field {name}.{path} of type {wanted}"))
    };
    let wrong = |value: &Value, wanted: &str| misfit(word(value), wanted);
    match (shape, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Shape::Text(_), Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Float, Value::Number(_))
        | (Shape::OrBool(_), Value::Bool(_))
        | (Shape::Raw, _) => Ok(value.clone()),
        (Shape::Int(_), Value::Number(number)) if number.is_i64() => Ok(value.clone()),
        (Shape::Int(wanted), Value::Number(number)) => misfit(&format!("number {number}"), wanted),
        (Shape::Time, Value::String(text)) => time(text),
        (Shape::Time, other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type string", word(other)))
        }
        (Shape::TextMap, Value::Object(entries)) => match entries.values().find(|v| !is_text(v)) {
            Some(bad) => wrong(bad, "string"),
            None => Ok(value.clone()),
        },
        (Shape::Texts, Value::Array(items)) => match items.iter().find(|v| !is_text(v)) {
            Some(bad) => wrong(bad, "string"),
            None => Ok(value.clone()),
        },
        (Shape::One(inner), Value::Object(fields)) => {
            Ok(Value::Object(members(fields, inner, place, unknown)?))
        }
        (Shape::List(inner), Value::Array(items)) => {
            let read = |(index, item): (usize, &Value)| match item {
                Value::Object(fields) => {
                    Ok(Value::Object(members(fields, inner, &place.index(index), unknown)?))
                }
                other => wrong(other, &format!("v1.{}", inner.name)),
            };
            items.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Shape::Named(inner), Value::Object(entries)) => {
            let read = |(key, value): (&String, &Value)| match value {
                Value::Object(fields) => {
                    let read = members(fields, inner, &place.key(key), unknown)?;
                    Ok((key.clone(), Value::Object(read)))
                }
                other => wrong(other, &format!("v1.{}", inner.name)).map(|value| (key.clone(), value)),
            };
            entries.iter().map(read).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        (Shape::OrBool(inner) | Shape::OrList(inner), Value::Object(_)) => {
            read(value, inner, &mut Vec::new())
        }
        (Shape::OrList(inner), Value::Array(items)) => {
            let all = items.iter().map(|item| read(item, inner, &mut Vec::new()));
            all.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Shape::OrBool(_), _) => Err("boolean or JSON schema expected".to_owned()),
        (Shape::OrList(_), other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type v1.JSONSchemaProps", word(other)))
        }
        (Shape::Text(wanted) | Shape::Int(wanted), other) => wrong(other, wanted),
        (Shape::Float, other) => wrong(other, "float64"),
        (Shape::Bool, other) => wrong(other, "bool"),
        (Shape::TextMap, other) => wrong(other, "map[string]string"),
        (Shape::Texts, other) => wrong(other, "[]string"),
        (Shape::One(inner), other) => wrong(other, &format!("v1.{}", inner.name)),
        (Shape::List(inner), other) => wrong(other, &format!("[]v1.{}", inner.name)),
        (Shape::Named(inner), other) => wrong(other, &format!("map[string]v1.{}", inner.name)),
    }
}

fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}

/// Whole seconds in UTC.
fn time(text: &str) -> Result<Value, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    let bad = |_| format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {text:?} as \"2006\"");
    text.parse::<Timestamp>().map(crate::metadata::timestamp).map_err(bad)
}

/// What Go calls a JSON value.
fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
