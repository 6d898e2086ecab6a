//! Reading JSON into Go's types: what does not fit is refused in Go's words, what is not a field is dropped and named,
//! what is empty is left out as Go leaves it out.

use serde_json::{Map, Number, Value};

use crate::golang::{self, json_type};

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
    /// A list of anything, under the name that Go has for it.
    Values(&'static str),
    /// An object of anything, likewise.
    Entries(&'static str),
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
        other => {
            Err(format!("json: cannot unmarshal {} into Go value of type v1.{}", json_type(other), of.name))
        }
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

/// Definitions go deep: what goes into itself here is kept apart from what does not, for the sake of the stack.
fn shaped(
    value: &Value,
    shape: Shape,
    of: &'static Struct,
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    match (shape, value) {
        (Shape::One(inner), Value::Object(_)) => object(value, inner, of, place, unknown),
        (Shape::List(inner), Value::Array(items)) => {
            let numbered = items.iter().enumerate();
            let read = numbered.map(|(index, item)| object(item, inner, of, &place.index(index), unknown));
            read.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Shape::Named(inner), Value::Object(entries)) => {
            let read = entries
                .iter()
                .map(|(key, value)| Ok((key.clone(), object(value, inner, of, &place.key(key), unknown)?)));
            read.collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        (Shape::OrBool(inner) | Shape::OrList(inner), Value::Object(_)) => {
            read(value, inner, &mut Vec::new())
        }
        (Shape::OrList(inner), Value::Array(items)) => {
            let all = items.iter().map(|item| read(item, inner, &mut Vec::new()));
            all.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        _ => simple(value, shape, of, place),
    }
}

/// An object inside of another. Where Go has no pointer, null is the empty one.
fn object(
    value: &Value,
    inner: &'static Struct,
    of: &'static Struct,
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    match value {
        Value::Object(fields) => members(fields, inner, place, unknown).map(Value::Object),
        Value::Null => Ok(Value::Object(Map::new())),
        other => misfit(json_type(other), &format!("v1.{}", inner.name), of, place),
    }
}

/// What holds no objects of a type, and whatever does not fit.
fn simple(value: &Value, shape: Shape, of: &'static Struct, place: &Place) -> Result<Value, String> {
    let wrong = |value: &Value, wanted: &str| misfit(json_type(value), wanted, of, place);
    let text = |value: &Value| match value {
        Value::String(_) => Ok(value.clone()),
        Value::Null => Ok("".into()),
        other => wrong(other, "string"),
    };
    match (shape, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Shape::Text(_), Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Float, Value::Number(_))
        | (Shape::OrBool(_), Value::Bool(_))
        | (Shape::Values(_), Value::Array(_))
        | (Shape::Entries(_), Value::Object(_))
        | (Shape::Raw, _) => Ok(value.clone()),
        (Shape::Int(wanted), Value::Number(number)) if fits(number, wanted) => Ok(value.clone()),
        (Shape::Int(wanted), Value::Number(number)) => misfit(&format!("number {number}"), wanted, of, place),
        // Whole seconds in UTC.
        (Shape::Time, Value::String(text)) => {
            golang::time(text, golang::TIME).map(crate::metadata::timestamp)
        }
        (Shape::Time, other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other)))
        }
        (Shape::TextMap, Value::Object(entries)) => {
            let read = |(key, value): (&String, &Value)| Ok((key.clone(), text(value)?));
            entries.iter().map(read).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        (Shape::Texts, Value::Array(items)) => {
            items.iter().map(text).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Shape::OrBool(_), _) => Err("boolean or JSON schema expected".to_owned()),
        (Shape::OrList(_), other) => {
            let found = json_type(other);
            Err(format!("json: cannot unmarshal {found} into Go value of type v1.JSONSchemaProps"))
        }
        (
            Shape::Text(wanted) | Shape::Int(wanted) | Shape::Values(wanted) | Shape::Entries(wanted),
            other,
        ) => wrong(other, wanted),
        (Shape::Float, other) => wrong(other, "float64"),
        (Shape::Bool, other) => wrong(other, "bool"),
        (Shape::TextMap, other) => wrong(other, "map[string]string"),
        (Shape::Texts, other) => wrong(other, "[]string"),
        (Shape::One(inner), other) => wrong(other, &format!("v1.{}", inner.name)),
        (Shape::List(inner), other) => wrong(other, &format!("[]v1.{}", inner.name)),
        (Shape::Named(inner), other) => wrong(other, &format!("map[string]v1.{}", inner.name)),
    }
}

fn misfit(found: &str, wanted: &str, of: &'static Struct, place: &Place) -> Result<Value, String> {
    let (name, path) = (of.name, &place.fields);
    Err(format!("json: cannot unmarshal {found} into Go struct field {name}.{path} of type {wanted}"))
}

fn fits(number: &Number, wanted: &str) -> bool {
    number.as_i64().is_some_and(|number| wanted != "int32" || i32::try_from(number).is_ok())
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
