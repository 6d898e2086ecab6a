//! Reads JSON as Go's decoder reads it into upstream's types: what does not fit is refused in its words, what is not
//! a field is dropped and named, amounts and times come out in the one notation in which upstream writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_api::quantity;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Field, Schema, Shape, Type, TypeId};
use crate::golang::{self, MICRO_TIME, json_type};

/// A body that fits its type.
#[derive(Debug)]
pub struct Accepted {
    /// Without nulls and unknown fields.
    pub object: Value,
    /// Paths of fields that were dropped, e.g. `spec.containers[0].foo`.
    pub unknown: Vec<String>,
}

/// The error is Go's text.
pub fn accept(schema: &Schema, root: TypeId, input: &Value) -> Result<Accepted, String> {
    let mut reading =
        Reading { schema, path: Vec::new(), owners: Vec::new(), misfit: None, unknown: Vec::new() };
    let whole = match input {
        Value::Object(fields) => reading.message(schema.of(root), fields)?,
        _ => return Err(reading.misfit_text(input, &reading.go_type(&Shape::Message(root)))),
    };
    match reading.misfit {
        Some(misfit) => Err(misfit),
        None => Ok(Accepted { object: whole, unknown: reading.unknown }),
    }
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    /// A struct whose fields stand among those of its owner; only Go's messages show it.
    Embedded(&'a str),
    Index(usize),
    Key(&'a str),
}

struct Reading<'a> {
    schema: &'a Schema,
    path: Vec<Step<'a>>,
    /// Names of the structs around the value, innermost last.
    owners: Vec<&'a str>,
    /// The first value of a wrong type. Go reads on, because a type with a decoder of its own may refuse harder.
    misfit: Option<String>,
    unknown: Vec<String>,
}

impl<'a> Reading<'a> {
    /// `named` is what Go calls the type, if its shape does not say it.
    fn value(&mut self, shape: &'a Shape, named: &str, input: &'a Value) -> Result<Value, String> {
        match (shape, input) {
            (Shape::Message(id), Value::Object(fields)) => self.message(self.schema.of(*id), fields),
            (Shape::Message(_), Value::Null) => Ok(Value::Object(Map::new())),
            (Shape::List(element) | Shape::WrappedList(element), Value::Array(items)) => {
                self.list(element, named.strip_prefix("[]").unwrap_or_default(), items)
            }
            (Shape::Map(element), Value::Object(entries)) => self.map(element, entries),
            (Shape::String, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Float64, Value::Number(_))
            | (Shape::FieldsV1 | Shape::RawExtension | Shape::Duration, _) => Ok(input.clone()),
            (Shape::String, Value::Null) => Ok("".into()),
            (Shape::Bool, Value::Null) => Ok(false.into()),
            (Shape::Int32 | Shape::Int64 | Shape::Float64, Value::Null) => Ok(0.into()),
            (Shape::Int32, Value::Number(number)) if fits_32(number) => Ok(input.clone()),
            (Shape::Int64, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(input.clone()),
            (Shape::Bytes, Value::String(text)) => bytes(text).map(|()| input.clone()),
            (Shape::Quantity, _) => amount(input),
            (Shape::IntOrString, Value::String(_)) => Ok(input.clone()),
            (Shape::IntOrString, Value::Number(number)) if fits_32(number) => Ok(input.clone()),
            (Shape::IntOrString, other) => Err(self.misfit_text(other, "int32")),
            (Shape::Time, Value::String(text)) => time(text, "%Y-%m-%dT%H:%M:%SZ", golang::TIME),
            (Shape::MicroTime, Value::String(text)) => micro_time(text),
            (Shape::Time | Shape::MicroTime, Value::Null) => Ok(Value::Null),
            (Shape::Time | Shape::MicroTime, other) => Err(self.misfit_text(other, "string")),
            (_, Value::Null) => Ok(Value::Null),
            (shape, other) => {
                let wanted = if named.is_empty() { self.go_type(shape) } else { named.to_owned() };
                let text = self.misfit_text(other, &wanted);
                self.misfit.get_or_insert(text);
                Ok(Value::Null)
            }
        }
    }

    fn message(&mut self, of: &'a Type, fields: &'a Map<String, Value>) -> Result<Value, String> {
        let mut object = Map::new();
        let owner = short_name(&of.name);
        for (name, value) in fields {
            let depth = (self.path.len(), self.owners.len());
            self.owners.push(owner);
            match self.locate(of, name) {
                None if of.is_kind && matches!(name.as_str(), "apiVersion" | "kind") => {
                    self.path.push(Step::Field(name));
                    let text = self.value(&Shape::String, "", value)?;
                    object.insert(name.clone(), text);
                }
                None => {
                    self.path.push(Step::Field(name));
                    self.unknown.push(self.shown_path());
                }
                Some(_) if value.is_null() => {}
                Some(field) => {
                    self.path.push(Step::Field(name));
                    let value = self.value(&field.shape, &field.go, value)?;
                    if !value.is_null() {
                        object.insert(name.clone(), value);
                    }
                }
            }
            self.path.truncate(depth.0);
            self.owners.truncate(depth.1);
        }
        Ok(Value::Object(object))
    }

    /// The field that JSON calls `name`; the structs on the way to it stay noted.
    fn locate(&mut self, of: &'a Type, name: &str) -> Option<&'a Field> {
        let place = of.by_name.get(name)?;
        let field = &of.fields[place.field as usize];
        match field.shape {
            Shape::Message(inner) if place.inline => {
                let inner = self.schema.of(inner);
                self.path.push(Step::Embedded(short_name(&inner.name)));
                self.locate(inner, name)
            }
            _ => Some(field),
        }
    }

    fn list(&mut self, element: &'a Shape, named: &str, items: &'a [Value]) -> Result<Value, String> {
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            list.push(self.value(element, named, item)?);
            self.path.pop();
        }
        Ok(Value::Array(list))
    }

    fn map(&mut self, element: &'a Shape, entries: &'a Map<String, Value>) -> Result<Value, String> {
        let mut map = Map::new();
        for (key, entry) in entries {
            self.path.push(Step::Key(key));
            map.insert(key.clone(), self.value(element, "", entry)?);
            self.path.pop();
        }
        Ok(Value::Object(map))
    }

    /// With positions and keys, without what JSON does not show.
    fn shown_path(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Index(index) => text.push_str(&format!("[{index}]")),
                Step::Field(name) | Step::Key(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Embedded(_) => {}
            }
        }
        text
    }

    fn misfit_text(&self, value: &Value, wanted: &str) -> String {
        let found = match value {
            // A number that is only too large or broken is shown.
            Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
            other => json_type(other).to_owned(),
        };
        let names = self.path.iter().filter_map(|step| match step {
            Step::Field(name) | Step::Embedded(name) => Some(*name),
            Step::Index(_) | Step::Key(_) => None,
        });
        let path = names.collect::<Vec<_>>().join(".");
        match self.owners.last() {
            Some(owner) => {
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        }
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Float64 => "float64".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Quantity => "resource.Quantity".to_owned(),
            Shape::List(element) | Shape::WrappedList(element) => format!("[]{}", self.go_type(element)),
            Shape::Map(element) => format!("map[string]{}", self.go_type(element)),
            Shape::Message(id) => {
                let name = &self.schema.of(*id).name;
                let package = name.rsplit('.').nth(1).unwrap_or_default();
                format!("{package}.{}", short_name(name))
            }
            _ => "string".to_owned(),
        }
    }
}

fn short_name(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or_default()
}

fn fits_32(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn bytes(text: &str) -> Result<(), String> {
    match STANDARD.decode(text) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(offset, _)) => {
            Err(format!("illegal base64 data at input byte {offset}"))
        }
        // Go points at the last group of four.
        Err(_) => Err(format!("illegal base64 data at input byte {}", text.len() & !3)),
    }
}

/// An amount may be text or a bare number; absent is nothing at all.
fn amount(input: &Value) -> Result<Value, String> {
    let text = match input {
        Value::Null => return Ok("0".into()),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    quantity::canonical(&text).map(Value::from).map_err(|bad| bad.to_string())
}

fn time(text: &str, format: &str, go_format: &str) -> Result<Value, String> {
    golang::time(text, go_format).map(|at| at.strftime(format).to_string().into())
}

/// Six digits, no more and no fewer.
fn micro_time(text: &str) -> Result<Value, String> {
    let fraction = text.find(['.', ',']).map(|start| &text[start + 1..]).unwrap_or_default();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let seconds = text.get(..19).is_some_and(|whole| format!("{whole}Z").parse::<Timestamp>().is_ok());
    if seconds && digits != 6 {
        let rest = text.get(19..).unwrap_or_default();
        return Err(format!("parsing time {text:?} as {MICRO_TIME:?}: cannot parse {rest:?} as \".000000\""));
    }
    time(text, "%Y-%m-%dT%H:%M:%S%.6fZ", MICRO_TIME)
}
